#include "tools/cli/train_command.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "actors/deterministic_run.h"
#include "actors/experience/answers/python_grader.h"
#include "actors/supervisor.h"
#include "actors/token_sizes.h"
#include "models/learning/run_figures.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/open_files.h"
#include "runtime/base/output.h"
#include "runtime/base/process_stats.h"
#include "runtime/base/threads.h"
#include "runtime/caf/owned_system.h"
#include "runtime/caf/system.h"
#include "runtime/run_folder/log_tail.h"
#include "runtime/run_folder/start_files.h"
#include "runtime/run_folder/undone_updates.h"
#include "tools/cli/alarm_command.h"
#include "tools/cli/dashboard_page.h"
#include "tools/cli/exported_metrics.h"
#include "tools/cli/join_listener.h"
#include "tools/cli/learning_context.h"
#include "tools/cli/python_functions.h"
#include "tools/cli/rank_command.h"
#include "tools/cli/run_ranks.h"
#include "tools/cli/run_report.h"
#include "tools/cli/start_facts.h"
#include "tools/cli/stop_limit.h"
#include "tools/cli/this_command.h"
#include "tools/cli/token_context.h"
#include "tools/cli/train_resume.h"
#include "tools/cli/tunnel.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

std::string stopping_line(int signal, bool training_ended) {
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  const std::string begin = std::string(terminal ? "\n" : "") + "stopping at " + signal_name(signal) + ": ";
  if (training_ended) return begin + "training has ended; the last evaluation is left out unless it is complete\n";
  return begin + "writing a checkpoint" + (terminal ? " (press Ctrl-C again after 1 s to quit without it)" : "") + '\n';
}

std::string milliseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// For those who watch the run, which goes on whether its log can be read or not.
std::string end_of_log(const std::string& folder) {
  std::string text;
  try {
    for (const std::string& line : log_tail(posix_disk(), folder)) text += line + '\n';
  } catch (const IoError& error) {
    text = error.what();
  }
  return text;
}

// Where `address` names no port, that of the last start of the run in `folder` is used, so that a page which is open in
// a browser finds this start. Returns that port if another program has taken it, else 0.
uint16_t open_stats(std::optional<StatsSocket>& socket, const TrainOptions& options, const RunConfig& config) {
  const Address& address = options.stats;
  const std::string folder = run_folder_of(options, config);
  const auto open = [&](uint16_t port) {
    socket.emplace(StatsSocketOptions{.host = address.host,
                                      .port = port,
                                      .run = config.name,
                                      .name = about_with(read_about(posix_disk(), folder), options.about).name,
                                      .started = milliseconds_since_1970(),
                                      .config = to_json(config),
                                      .defaults = to_json(RunConfig{}),
                                      .page_gz = dashboard_page(),
                                      .metrics = exported_metrics(),
                                      .figures = figures_json(run_figures()),
                                      .log = [folder] { return end_of_log(folder); },
                                      .max_snapshots = static_cast<size_t>(config.stats.history)});
  };
  const uint16_t before = address.port == 0 ? read_stats_port(posix_disk(), folder).value_or(0) : 0;
  try {
    if (before != 0) open(before);
    if (before != 0) return 0;
  } catch (const IoError&) {
    socket.reset();
  }
  try {
    open(address.port);
  } catch (const IoError& refused) {
    throw ConfigError(std::string("--stats ") + refused.what());
  }
  return before;
}

// Prints the run folder and the addresses.
void announce(RunFolder& folder, const RunConfig& config, const Address& workers, const Address& stats) {
  const std::string connect = address_for_others(workers, host_name());
  print_line("run folder " + folder.path());
  print_line("workers    troupe worker --connect " + connect);
  print_line("inference  troupe inference --connect " + connect);
  if (has_scorers(config)) print_line("scorers    troupe scorer --connect " + connect);
  print_line("statistics " + address_for_others(stats, host_name()));
  print_line("dashboard  http://" + address_for_others(stats, host_name()) + '/');
  print_tunnel(stats);
  folder.write_stats_port(stats.port);
}

// The addresses for programs, in endpoints.json.
std::string endpoints_text(const std::string& workers, const std::string& stats) {
  return nlohmann::json{{"pid", getpid()}, {"workers", workers}, {"stats", stats}}.dump(2);
}

// Tells the user that a new run with the settings of another one begins with new weights, although the other run began
// with given ones.
void tell_new_weights(const TrainOptions& options, const RunFolder& folder) {
  if (folder.resuming() || options.config.empty() || !options.init_from.empty()) return;
  const std::string source = init_from_of_settings(find_config(options.config));
  if (source.empty()) return;
  const std::string line = options.config + " was started with --init-from " + source + "; " + folder.path() +
                           " begins with new weights, because --init-from is not given";
  log_info("train", line);
  print_line(line);
}

// Keeps what the run is called and, where it goes on, what it was started with.
void keep_about_of(const RunFolder& folder, const RunAbout& about, bool starts) {
  try {
    keep_about(posix_disk(), folder.path(), about, starts ? std::optional(start_facts()) : std::nullopt);
  } catch (const IoError& refused) {
    throw ConfigError(refused.what());
  }
}

// Tells how large the trainer's passes are, which the config may leave open, and how much memory the run needs.
void tell_sizes(const RunConfig& config) {
  const std::string passes = training_pass_text(config), memory = memory_summary(config, {});
  log_info("train", passes);
  print_line("trainer    " + passes);
  log_info("train", "memory: " + memory);
  print_line("memory     " + memory);
}

// For a second Ctrl-C: removes the addresses, and returns a line that names the checkpoint to resume from.
std::string quit(RunFolder& folder) {
  const std::string start = "troupe: ended without waiting for the checkpoint; ";
  try {
    folder.remove_endpoints();
    const std::vector<uint64_t> saved = folder.checkpoints().list();
    if (saved.empty()) return start + "none was written before";
    return start + "the newest one is " + folder.checkpoints().path_of(saved.back());
  } catch (const std::exception& unreadable) {
    return start + unreadable.what();
  }
}

void log_stop(const StopSignals& signals) {
  if (const int signal = signals.first(); signal != 0) log_info("train", "stopping at " + signal_name(signal));
}

// Waits for the end of the run. True if a signal ended it early.
bool wait_for_end(const SupervisorActor& supervisor, const StopSignals& signals) {
  const bool interrupted = signals.wait();
  log_stop(signals);
  if (interrupted)
    caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(supervisor), Stop{kInterrupted});
  signals.wait_for_end();
  return interrupted;
}

// Prints the closing lines of a run, and returns its exit code.
int close_run(const RunOutcome& outcome, const std::string& summary_error, bool interrupted,
              const std::string& resume) {
  log_info("train", "ended: " + (outcome.error.empty() ? outcome.reason : outcome.error));
  if (!summary_error.empty()) log_info("train", "the summary is not written: " + summary_error);
  close_log();
  if (!outcome.error.empty()) print_error("troupe: the run ended: " + outcome.error);
  if (!outcome.checkpoint_error.empty())
    print_error("troupe: the last checkpoint is not written: " + outcome.checkpoint_error);
  if (!summary_error.empty()) print_error("troupe: the summary is not written: " + summary_error);
  const bool evaluation_failed = outcome.evaluation && !outcome.evaluation->error.empty();
  if (evaluation_failed) print_error("troupe: the last evaluation failed: " + outcome.evaluation->error);
  if (!outcome.error.empty() || !outcome.checkpoint_error.empty() || !summary_error.empty() || evaluation_failed)
    return kExitFailure;
  if (interrupted) print_line("To resume: " + resume);
  return interrupted ? kExitInterrupted : 0;
}

// Throws ConfigError if the system does not allow the files, threads and memory that CAF and LibTorch need later.
void require_resources(const RunConfig& config) {
  // The run has about 20 files open, and a few more while it writes a checkpoint. Half of all are for workers and
  // inference processes that connect (runtime/caf/listen.h), a quarter for clients of the statistics.
  constexpr uint64_t kFiles = 128;
  require_open_files(kFiles);
  require_address_space(threads_needed(config), memory_needed(config, environment_of(config)),
                        available_address_space(), "lower workers.count");
  require_threads(threads_needed(config), "lower workers.count");
}

std::shared_ptr<RunContext> context_of(const TrainOptions& options, const RunConfig& config, Clock::time_point begun) {
  std::shared_ptr<RunContext> context = learning_context(config, devices_of_run(config));
  if (!config.deterministic) {
    context->started = begun;
    context->board = std::make_shared<ActorBoard>();
  }
  if (!is_any_address(options.listen.host)) context->network_address = options.listen.host;
  return context;
}

// What one start of a run uses, in the order of construction. Destroyed in the reverse order, after the actors.
struct Start {
  const TrainOptions& options;
  const std::optional<Launch>& launch;
  const RunConfig& config;
  Clock::time_point begun;
  StopSignals& signals;
  std::shared_ptr<RunContext> context;
  std::shared_ptr<Learner> learner;
  std::optional<StatsSocket> socket;  // none in a deterministic run
  uint16_t taken_stats_port = 0;      // of the last start, which another program listens on
  std::optional<RunFolder> folder;
  std::optional<AlarmCommand> on_alarm;
  std::shared_ptr<RunReport> report;
  RunOutcome outcome;
  bool ended = false;
};

// Ends the process of a deterministic run whose environments neither make steps nor let it stop. A resume from the last
// moment at which all actors were idle makes the same steps again.
[[noreturn]] void give_up(Start& run) {
  log_stop(run.signals);
  RunOutcome outcome;
  outcome.reason = kInterrupted;
  std::string state = "without another checkpoint, because it was not idle since its start";
  try {
    const std::optional<uint64_t> updates = run.report->save_kept();
    if (updates) outcome.version.number = *updates;
    if (updates) state = "with its state after update " + std::to_string(*updates);
    outcome.checkpoint_written = updates.has_value();
  } catch (const std::exception& refused) {
    outcome.checkpoint_error = refused.what();
  }
  log_warn("train", "no environment has made a step for " + std::to_string(StopLimit::patience().count()) +
                        " ms after " + signal_name(run.signals.first()) + ": the run ends " + state);
  const std::string summary_error =
      run.report->finish(outcome, std::chrono::duration<double>(Clock::now() - run.begun).count());
  _exit(close_run(outcome, summary_error, /*interrupted=*/true, this_command()));
}

// The same for a deterministic run, whose actors run on this thread.
bool drive_to_end(caf::actor_system& system, const SupervisorActor& supervisor, Start& run) {
  bool interrupted = false;
  StopLimit limit(run.signals, [&run] { give_up(run); });
  run_deterministically(
      system, supervisor, run.ended,
      [&] {
        limit.next();
        return interrupted = run.signals.asked();
      },
      [&limit] { limit.stopping(); });
  log_stop(run.signals);
  return interrupted;
}

// Spawns the actors of the run, waits for their end and reports it. Returns the exit code.
int train(Start& run, OwnedSystem& owned, std::optional<JoinListener>& listener, const ReplayStart& start) {
  std::optional<StopSignals::AtQuit> at_quit;
  at_quit.emplace(run.signals, [&run] { return quit(*run.folder); });
  RunDependencies dependencies{std::move(run.learner), start, run.report, [&run](const RunOutcome& result) {
                                 run.outcome = result;
                                 run.ended = true;
                                 run.signals.end();
                               }};
  const SupervisorActor root = owned.get().spawn(supervisor, run.context, std::move(dependencies));
  if (listener) listener->lead_to(root);
  std::optional<ChildProcesses> ranks;
  if (run.context->rank_processes && !run.launch) start_ranks(ranks, listener->address(), run.config.trainer.ranks - 1);
  const bool interrupted = listener ? wait_for_end(root, run.signals) : drive_to_end(owned.get(), root, run);
  listener.reset();
  if (ranks) ranks->stop(kFarewell);  // those that have not ended with the run
  const auto patience = run.outcome.left_behind.empty() ? kFarewell : std::chrono::milliseconds(0);
  if (!owned.await_actors(patience)) leave_threads_behind();
  const std::string summary_error =
      run.report->finish(run.outcome, std::chrono::duration<double>(Clock::now() - run.begun).count());
  if (run.on_alarm) run.on_alarm->finish(/*at_once=*/interrupted);
  const int code = close_run(run.outcome, summary_error, interrupted, resume_line(run.launch));
  if (run.socket) run.socket->stop();
  at_quit.reset();
  run.folder.reset();
  return code;
}

// Listens for workers, opens the run folder, and trains unless that run is finished. Returns the exit code.
int begin_and_train(Start& run) {
  const RunConfig& config = run.config;
  OwnedSystem owned({.scheduler = config.deterministic ? SchedulerKind::single_step : SchedulerKind::threads,
                     .threads = 2,
                     .network = !config.deterministic,
                     .network_config = config.network},
                    register_messages);
  const std::string path = run_folder_of(run.options, config);
  const std::optional<InitialWeights> initial =
      read_init_from(run.options.init_from, path,
                     {config.model, run.context->spec, run.context->tokens ? run.context.get() : nullptr});
  std::optional<JoinListener> listener;
  uint16_t taken_port = 0;
  try {
    if (!config.deterministic)
      taken_port = open_join_listener(listener, owned.get(), run.options.listen, path, config.network);
  } catch (const ConfigError& refused) {
    if (!run.launch) throw;
    throw ConfigError(run.launch->text() + ": " + refused.what());
  }

  run.signals.begin([](int signal) { return stopping_line(signal, /*training_ended=*/false); });
  run.folder.emplace(posix_disk(), path, to_json(config), settings_of_run(), initial ? &*initial : nullptr);
  const auto begins = [&] {
    if (run.launch) announce_launch(*run.launch);
    if (listener) announce(*run.folder, config, listener->address(), parse_address("--stats", run.socket->address()));
  };
  const std::optional<ReplayStart> start =
      begin_or_resume(*run.folder, config, *run.learner, *run.context, initial, begins);
  keep_about_of(*run.folder, run.options.about, start.has_value());
  if (!start) {
    close_log();
    print_line("Run folder: " + path);
    return run.launch ? tell_finished(*listener, *run.launch, run.signals) : 0;
  }
  if (listener) run.context->run_id = run_identity(posix_disk(), run.folder->path());
  tell_new_weights(run.options, *run.folder);
  if (is_token_run(config)) tell_sizes(config);
  if (taken_port != 0)
    log_warn("train",
             "port " + std::to_string(taken_port) +
                 ", on which the last start of this run listened, is taken; its workers must be started again");
  if (run.taken_stats_port != 0)
    log_warn("train", "port " + std::to_string(run.taken_stats_port) +
                          ", on which the last start of this run served its statistics, is taken; a page that is open "
                          "must be opened at the new address");
  run.report = std::make_shared<RunReport>(*run.folder, run.socket ? &*run.socket : nullptr, config, *start,
                                           run.context->state_of(kMetricsHeld));
  if (run.launch && run.launch->by_launcher()) run.report->print_lines();
  if (is_token_run(config)) run.report->expect_memory(estimated_memory(config, {}));
  if (!config.deterministic) run.report->undone(read_undone_updates(posix_disk(), path));
  if (!run.options.on_alarm.empty()) {
    run.on_alarm.emplace(run.options.on_alarm, run.folder->path());
    run.report->on_alarm([&run](const RaisedAlarm& raised) { run.on_alarm->run(raised); });
  }
  run.signals.begin([report = run.report](int signal) { return stopping_line(signal, report->training_ended()); });
  if (listener) run.folder->write_endpoints(endpoints_text(listener->address().text(), run.socket->address()));
  return train(run, owned, listener, *start);
}

}  // namespace

int run_train(const TrainOptions& given) {
  const auto begun = Clock::now() - process_age();
  std::signal(SIGPIPE, SIG_IGN);  // the run continues if the reader of its console ends
  const std::optional<Launch> launch = launch_of(given);
  if (launch && launch->rank > 0) return run_launched_rank(*launch, config_of_rank(given, *launch));
  const TrainOptions options = launch ? options_of_launch(given, *launch) : given;
  StopSignals signals;
  const RunConfig config = config_to_train(options);
  require_resources(config);
  Start run{options, launch, config, begun, signals};
  run.context = context_of(options, config, begun);
  add_reward_model(*run.context);
  if (is_token_run(config)) {
    tell_start(config.task.verifier, config.task.python);
    try_verifier(config, *run.context->tokens->task);
    tell_start(config.task.reply, config.task.python);
    try_reply(config, *run.context->tokens);
  }
  begin_step("building the model");
  run.learner = learner_of(*run.context);
  run.context->rank_processes = config.trainer.ranks > 1 && !config.deterministic;
  run.context->make_learner = [context = run.context.get()] { return learner_of(*context); };
  begin_step("training");
  // The ports first: if one is taken, nothing has been written yet.
  if (!config.deterministic) run.taken_stats_port = open_stats(run.socket, options, config);
  return begin_and_train(run);
}

}  // namespace troupe
