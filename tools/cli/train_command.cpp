#include "tools/cli/train_command.h"

#include <unistd.h>

#include <csignal>

#include <algorithm>
#include <chrono>
#include <optional>

#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/deterministic_run.h"
#include "actors/join_server.h"
#include "actors/network_messages.h"
#include "actors/resume.h"
#include "actors/supervisor.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/output.h"
#include "runtime/base/process_stats.h"
#include "runtime/base/threads.h"
#include "runtime/caf/listen.h"
#include "runtime/caf/owned_system.h"
#include "runtime/caf/system.h"
#include "runtime/config/config.h"
#include "runtime/config/fixed_settings.h"
#include "tools/cli/finished_run.h"
#include "tools/cli/learning_context.h"
#include "tools/cli/run_report.h"
#include "tools/cli/this_command.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

std::string stopping_line(int signal) {
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  return std::string(terminal ? "\n" : "") + "stopping at " + signal_name(signal) + ": writing a checkpoint" +
         (terminal ? " (press Ctrl-C again after 1 s to quit without it)" : "") + '\n';
}

// Where a run begins, or goes on.
struct Beginning {
  ReplayStart start;
  std::optional<RunFolder::ResumePoint> resume;
};

// A deterministic run loses nothing when it is resumed: it goes on under the same epoch, with the state of every actor.
void restore_actors(const Checkpoint& checkpoint, RunContext& context, Beginning& beginning) {
  if (!checkpoint.scalars.contains(kMetricsLines))
    throw ConfigError("it does not hold the actors of a deterministic run; use another run folder");
  context.states = checkpoint.extras;
  beginning.start.version = checkpoint.version;
  beginning.resume->lines = saved_count(checkpoint, kMetricsLines);
  if (const std::string* held = context.state_of(kMetricsHeld))  // it will be written again
    beginning.resume->tensorboard_step = static_cast<int64_t>(env_steps_of(*held));
}

// The checkpoint to resume from; nothing when none was written.
std::optional<Checkpoint> recover(RunFolder& folder, const Learner& learner) {
  CheckpointStore& checkpoints = folder.checkpoints();
  checkpoints.expect_weights(learner.signature()->total_bytes());
  try {
    return checkpoints.recover();
  } catch (const IoError& refused) {
    throw ConfigError(std::string(refused.what()) + "; use another run folder, or remove " + folder.path() +
                      "/checkpoints to start anew");
  }
}

// Restores the learner, and in a deterministic run all other actors.
Beginning restore(RunFolder& folder, Learner& learner, RunContext& context) {
  Beginning beginning;
  if (!folder.resuming()) return beginning;
  const std::optional<Checkpoint> checkpoint = recover(folder, learner);
  if (!checkpoint) return beginning;
  try {
    beginning.start = resume(*checkpoint, learner);
    const ReplayStart& start = beginning.start;
    beginning.resume = RunFolder::ResumePoint{start.version.number, start.env_steps};
    if (context.deterministic) restore_actors(*checkpoint, context, beginning);
  } catch (const ConfigError& misfit) {
    throw ConfigError(folder.checkpoints().path_of(checkpoint->updates) + ": " + misfit.what());
  }
  return beginning;
}

// False when the run has nothing left to do. Says which.
bool tell_resumed(const RunFolder& folder, const RunConfig& config, const ReplayStart& start) {
  const std::string finished = finished_line(folder, config, start);
  const std::string resuming = "resuming at update " + std::to_string(start.version.number);
  log_info("train", finished.empty() ? resuming : finished);
  print_line(finished.empty() ? resuming + ", " + std::to_string(start.env_steps) + " environment steps" : finished);
  return finished.empty();
}

// The server for workers, on the network from its construction on. Nothing outlives it, so that a start that fails ends at once.
class OpenGate {
 public:
  // Throws ConfigError when the address is taken.
  OpenGate(caf::actor_system& system, const Address& at, const ListenLimits& limits)
      : system_(system),
        gate_(system.spawn(join_server)),
        address_{at.host, listen(system, JoinService(gate_), at.host, at.port, messages_to_run(), limits)} {}
  OpenGate(const OpenGate&) = delete;
  OpenGate& operator=(const OpenGate&) = delete;
  ~OpenGate() {
    system_.middleman().unpublish(caf::actor_cast<caf::actor>(gate_), address_.port);
    caf::anon_send_exit(gate_, caf::exit_reason::user_shutdown);
  }

  std::string address() const { return address_.text(); }
  void lead_to(const SupervisorActor& supervisor) const {
    caf::anon_send(gate_, begin_atom_v, caf::actor_cast<caf::actor>(supervisor));
  }

 private:
  caf::actor_system& system_;
  JoinServerActor gate_;
  Address address_;
};

constexpr uint64_t kMaxEndpointsBytes = 1 << 16;

// The port on which a start of this run listened that was killed, so that its workers find this start; nothing when there is
// none. endpoints.json is removed at an orderly end.
std::optional<Address> address_left_behind(const std::string& folder, const std::string& host) {
  try {
    const std::string text = posix_disk().read(folder + "/endpoints.json", kMaxEndpointsBytes);
    Address address = parse_address("workers", nlohmann::json::parse(text).at("workers").get<std::string>());
    if (address.host == host) return address;
  } catch (const std::exception&) {
    return {};
  }
  return {};
}

constexpr size_t kMessageOverhead = 1 << 20;
constexpr size_t kLargestMessages = 64;  // at a time, where memory is scarce

// What peers may make this process hold. Arrays above network.chunk_bytes come in parts; beside them a message has lists, like those of the
// episodes that ended, which can be larger than small arrays.
ListenLimits limits_of(const NetworkConfig& network) {
  const size_t message = 4 * static_cast<size_t>(network.chunk_bytes) + kMessageOverhead;
  return {.message_bytes = message,
          .buffer_bytes = std::max<size_t>(kLargestMessages * message, available_memory() / 8)};
}

// The port of the last start that is taken by now, so that its workers do not find this one; 0 when there is none.
uint16_t open_gate(std::optional<OpenGate>& server, caf::actor_system& system, const Address& at,
                   const std::string& folder, const NetworkConfig& network) {
  const ListenLimits limits = limits_of(network);
  const std::optional<Address> before = at.port == 0 ? address_left_behind(folder, at.host) : std::nullopt;
  try {
    server.emplace(system, before.value_or(at), limits);
    return 0;
  } catch (const ConfigError&) {
    if (!before) throw;
  }
  server.emplace(system, at, limits);
  return before->port;
}

void open_stats(std::optional<StatsSocket>& socket, const Address& address, const RunConfig& config) {
  try {
    socket.emplace(StatsSocketOptions{.host = address.host,
                                      .port = address.port,
                                      .run = config.name,
                                      .config = to_json(config),
                                      .max_snapshots = static_cast<size_t>(config.stats.history)});
  } catch (const IoError& refused) {
    throw ConfigError(std::string("--stats ") + refused.what());
  }
}

// Schedules end where the run does. A run that is made longer or shorter has other values from here on.
void tell_moved_schedules(const RunFolder& folder, const RunConfig& config) {
  const std::string lr = config.trainer.lr_schedule;
  const bool others = config.algorithm.entropy_coef_end >= 0 || config.model.log_std == "scheduled";
  if (lr == "constant" && !others) return;
  for (const char* limit : {"stop.env_steps", "stop.updates", "stop.seconds"})
    if (const auto change = changed_setting(folder.config_before(), to_json(config), limit))
      log_warn("train",
               *change + ": from here on " +
                   (lr == "constant" ? "schedules" : "the learning rate (trainer.lr_schedule \"" + lr + "\")") +
                   " will follow the new limit");
}

// Opens the log and the metrics of a folder, and restores from it what there is; nothing when the run has nothing left to do.
std::optional<ReplayStart> begin_or_resume(RunFolder& folder, const RunConfig& config, Learner& learner,
                                           RunContext& context) {
  open_log(folder.open_log_file());
  log_info("train",
           config.env.id + " with seed " + std::to_string(config.seed) + ", process " + std::to_string(getpid()));
  if (const auto& change = folder.replaced_settings()) {
    const std::string line = "nothing was trained in " + folder.path() + " yet; its settings are replaced: " + *change;
    log_info("train", line);
    print_line(line);
  }
  Beginning beginning = restore(folder, learner, context);
  if (beginning.resume && !tell_resumed(folder, config, beginning.start)) return std::nullopt;
  if (beginning.resume) tell_moved_schedules(folder, config);
  // Nobody outlives a deterministic run, and its bytes must not depend on how often it was started.
  if (!context.deterministic)
    beginning.start.version.epoch = take_epoch(posix_disk(), folder.path(), beginning.start.version.epoch);
  const double wall_time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  folder.begin_metrics(wall_time, beginning.resume);
  if (const auto& former = folder.former_metrics()) {
    const std::string line = "no checkpoint was written in " + folder.path() +
                             ": training begins anew; the former metrics are in " + *former;
    log_info("train", line);
    print_line(line);
  }
  return beginning.start;
}

// Prints the run folder and the addresses, and writes them to endpoints.json for programs.
void announce(RunFolder& folder, const std::string& workers, const std::string& stats) {
  print_line("run folder " + folder.path());
  print_line("workers    troupe worker --connect " + workers);
  print_line("inference  troupe inference --connect " + workers);
  print_line("statistics " + stats);
  folder.write_endpoints(nlohmann::json{{"pid", getpid()}, {"workers", workers}, {"stats", stats}}.dump(2));
}

// What a second Ctrl-C leaves behind: no addresses, and a line that says from where the run can be resumed.
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

// Waits for the end of the run, which a signal brings about early. True when one did.
bool wait_for_end(const SupervisorActor& supervisor, const StopSignals& signals) {
  const bool interrupted = signals.wait();
  log_stop(signals);
  if (interrupted)
    caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(supervisor), Stop{"interrupted"});
  signals.wait_for_end();
  return interrupted;
}

// The same actors on this thread. True when interrupted.
bool drive_to_end(caf::actor_system& system, const SupervisorActor& supervisor, const StopSignals& signals,
                  const bool& ended) {
  bool interrupted = false;
  run_deterministically(system, supervisor, ended, [&] { return interrupted = signals.asked(); });
  log_stop(signals);
  return interrupted;
}

// The closing lines of a run, and its exit code.
int close_run(const RunOutcome& outcome, const std::string& summary_error, bool interrupted) {
  log_info("train", "ended: " + (outcome.error.empty() ? outcome.reason : outcome.error));
  if (!summary_error.empty()) log_error("train", summary_error);
  close_log();
  if (!outcome.error.empty()) print_error("troupe: the run ended: " + outcome.error);
  if (!outcome.checkpoint_error.empty())
    print_error("troupe: the last checkpoint is not written: " + outcome.checkpoint_error);
  if (!summary_error.empty()) print_error("troupe: the summary is not written: " + summary_error);
  const bool evaluation_failed = outcome.evaluation && !outcome.evaluation->error.empty();
  if (evaluation_failed) print_error("troupe: the last evaluation failed: " + outcome.evaluation->error);
  if (!outcome.error.empty() || !outcome.checkpoint_error.empty() || !summary_error.empty() || evaluation_failed)
    return kExitFailure;
  if (interrupted) print_line("To resume: " + this_command());
  return interrupted ? kExitInterrupted : 0;
}

}  // namespace

int run_train(const TrainOptions& options) {
  const auto begun = Clock::now() - process_age();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the console that leaves must not end the run
  StopSignals signals;
  const RunConfig config = load_run_config(options.config, options.overrides, options.seed);
  require_address_space(threads_needed(config), memory_needed(config, environment_of(config)),
                        available_address_space(), "lower workers.count");
  require_threads(threads_needed(config), "lower workers.count");

  const std::shared_ptr<RunContext> context = learning_context(config);
  if (!config.deterministic) context->started = begun;
  const bool any_address = options.listen.host == "0.0.0.0" || options.listen.host == "::";
  if (!any_address) context->network_address = options.listen.host;
  begin_step("building the model");
  std::shared_ptr<Learner> learner = learner_of(*context);
  begin_step("training");

  // The ports first: when one is taken, nothing was written yet.
  std::optional<StatsSocket> socket;
  if (!config.deterministic) open_stats(socket, options.stats, config);
  const std::string path = run_folder_of(options, config);
  std::optional<RunFolder> folder;
  std::shared_ptr<RunReport> report;
  RunOutcome outcome;
  bool ended = false, interrupted = false;
  int code = 0;
  {
    OwnedSystem owned({.scheduler = config.deterministic ? SchedulerKind::single_step : SchedulerKind::threads,
                       .threads = 2,
                       .network = !config.deterministic,
                       .network_config = config.network},
                      register_messages);
    caf::actor_system& system = owned.get();
    std::optional<OpenGate> server;
    uint16_t taken_port = 0;
    if (!config.deterministic) taken_port = open_gate(server, system, options.listen, path, config.network);

    signals.begin(stopping_line);
    folder.emplace(posix_disk(), path, to_json(config), upgrade_config);
    const std::optional<ReplayStart> start = begin_or_resume(*folder, config, *learner, *context);
    if (!start) {
      close_log();
      return 0;
    }
    if (taken_port != 0)
      log_warn("train",
               "port " + std::to_string(taken_port) +
                   ", on which the last start of this run listened, is taken; its workers must be started again");
    report = std::make_shared<RunReport>(*folder, socket ? &*socket : nullptr, config, *start,
                                         context->state_of(kMetricsHeld));
    if (server) announce(*folder, server->address(), socket->address());
    std::optional<StopSignals::AtQuit> at_quit;
    at_quit.emplace(signals, [&folder] { return quit(*folder); });

    RunParts parts{std::move(learner), *start, report, [&](const RunOutcome& result) {
                     outcome = result;
                     ended = true;
                     signals.end();
                   }};
    const SupervisorActor root = system.spawn(supervisor, context, std::move(parts));
    if (server) server->lead_to(root);
    interrupted = server ? wait_for_end(root, signals) : drive_to_end(system, root, signals, ended);
    server.reset();
    const auto patience = outcome.left_behind.empty() ? kFarewell : std::chrono::milliseconds(0);
    if (!owned.await_actors(patience)) leave_threads_behind();
    const std::string summary_error =
        report->finish(outcome, std::chrono::duration<double>(Clock::now() - begun).count());
    code = close_run(outcome, summary_error, interrupted);
    if (socket) socket->stop();
    at_quit.reset();
    folder.reset();
  }
  return code;
}

}  // namespace troupe
