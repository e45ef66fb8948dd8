#include "tools/cli/worker_process.h"

#include <algorithm>
#include <csignal>
#include <thread>

#include <caf/send.hpp>

#include "actors/config/config.h"
#include "actors/experience/answers/reward_model_check.h"
#include "actors/messages.h"
#include "envs/make/make_env.h"
#include "models/networks/embedding_ranges.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/open_files.h"
#include "runtime/base/output.h"
#include "runtime/base/threads.h"
#include "runtime/caf/owned_system.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/token_context.h"

namespace troupe {

std::string about_run(const std::string& run, const std::string& error) {
  return error.starts_with(run + ": ") ? error : run + ": " + error;
}

RunContextPtr worker_context(const std::string& run, const std::string& config, std::shared_ptr<ActorBoard> board) try {
  auto context = std::make_shared<RunContext>();
  context->board = std::move(board);
  context->config = parse_config(config, "the run's config");
  if (is_token_run(context->config)) {
    add_tokens(*context);
    if (!context->config.reward_model.by_scorers()) {
      check_reward_model(context->config, *context->tokens);
      add_reward_model(*context);
    }
    const TaskConfig& task = context->config.task;
    // Whoever waits for a verifier, or computes with a reward model, would block the other actors.
    context->threads = !task.verifier.empty() || !task.reply.empty() || context->reward_model;
    if (context->threads) require_threads(static_cast<size_t>(1 + task.verifier_processes));
    return context;
  }
  require_environment_of(run, context->config.env.id);
  EnvConfig one = context->config.env;
  one.rows = 1;
  context->spec = make_env(one)->spec();
  context->make_env = [ranges = embedding_ranges(context->config.model, context->spec)](const EnvConfig& env) {
    return with_ranges(make_env(env), ranges);
  };
  context->recurrence = recurrence_of(context->config, context->spec);
  // Workers share the threads of the actor system. A worker whose environment waits would block the others and the
  // hosts.
  context->threads = context->spec.blocks;
  if (context->threads) require_threads(1);
  return context;
} catch (const ConfigError& misfit) {
  throw ConfigError(about_run(run, misfit.what()));
}

RunAddress JoinReport::address(const Address& connect, std::optional<int64_t> wait) {
  RunAddress run{connect.host, connect.port, nullptr};
  if (wait) run.patience = {std::chrono::seconds(*wait), std::chrono::seconds(*wait)};
  run.on_news = [report = shared_from_this()](const JoinNews& news) { report->tell(news); };
  return run;
}

void JoinReport::tell_lost(const JoinNews& news) {
  log_warn(news.who, news.text);
  {
    const std::lock_guard lock(mutex_);
    member_ = false;
  }
  if (on_lost_) on_lost_();
}

void JoinReport::tell(const JoinNews& news) {
  if (news.kind == JoinNews::Kind::searching) return log_warn(news.who, news.text);
  if (news.kind == JoinNews::Kind::lost) return tell_lost(news);
  const std::lock_guard lock(mutex_);
  if (news.kind == JoinNews::Kind::gave_up) {
    gave_up_ = true;
    return;
  }
  if (news.kind == JoinNews::Kind::joined) joined_ = member_ = true;
  if (news.kind == JoinNews::Kind::ended) ended_ = true;
  print_line(news.who + ": " + news.text);
}

void JoinReport::fail(const std::string& error) {
  const std::lock_guard lock(mutex_);
  error_ = error;
}

bool JoinReport::is_member() const {
  const std::lock_guard lock(mutex_);
  return member_;
}

bool JoinReport::has_ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

int JoinReport::exit_code(bool interrupted) const {
  const std::lock_guard lock(mutex_);
  if (error_.empty()) return interrupted ? kExitInterrupted : 0;
  if (!joined_) throw ConfigError(source_ + ' ' + error_);
  begin_closing_lines();
  print_error("troupe: " + error_);
  return gave_up_ ? kExitFailure : kExitUserMistake;
}

size_t threads_for(size_t workers) {
  return std::clamp<size_t>(workers, 1, std::max(1U, std::thread::hardware_concurrency()));
}

NetworkConfig joining_network() {
  NetworkConfig network;
  network.peer_timeout = std::chrono::hours(24 * 365);
  return network;
}

int with_network(size_t threads, size_t more, const NetworkConfig& network,
                 const std::function<int(caf::actor_system&)>& body) {
  constexpr size_t kSystem = 3;  // timer, network, the end of the system
  constexpr size_t kFiles = 32;  // of the process; each of `more` may connect and look a name up at the same time
  require_open_files(kFiles + 2 * more);
  require_address_space(threads + kSystem + more, /*memory=*/0, available_address_space());
  require_threads(threads + kSystem + more);
  std::signal(SIGPIPE, SIG_IGN);  // the process continues if the reader of its console ends
  OwnedSystem system(
      {.scheduler = SchedulerKind::threads, .threads = threads, .network = true, .network_config = network},
      register_messages);
  const int code = body(system.get());
  if (!system.await_actors(kFarewell)) leave_threads_behind();
  return code;
}

namespace {

// Used by the command and its host, which can end after the command.
struct HostProcess {
  explicit HostProcess(const std::string& source) : report(std::make_shared<JoinReport>(source)) {}
  StopSignals signals;
  std::shared_ptr<JoinReport> report;
};

// A signal makes it wait for the end of the run, and no longer than the run is there.
void hold_to_run(const std::shared_ptr<HostProcess>& process) {
  const std::weak_ptr<HostProcess> weak = process;
  process->report->on_lost([weak] {
    if (const auto shared = weak.lock(); shared && shared->signals.asked()) shared->signals.end();
  });
  process->signals.begin([report = process->report](int signal) {
    if (!report->is_member()) return std::string();
    return "stopping at " + signal_name(signal) + ": rank 0 ends the run first; waiting for it for at most " +
           std::to_string(kLaunchedPatience.count()) + " s\n";
  });
}

// True if the host ends because of a signal.
bool wait_for_host(const HostProcess& process, bool launched) {
  if (!process.signals.wait()) return false;
  if (!launched || !process.report->is_member()) return true;
  process.signals.wait_for_end(kLaunchedPatience);
  return !process.report->has_ended();
}

}  // namespace

int run_host(const HostStart& start, size_t more, const SpawnHost& spawn) {
  const auto shared = std::make_shared<HostProcess>(start.source);
  if (start.launched)
    hold_to_run(shared);
  else
    shared->signals.begin({});
  open_log(nullptr, {.stderr_level = LogLevel::info});
  const auto on_end = [shared](const std::string& error) {
    if (!error.empty()) shared->report->fail(error);
    shared->signals.end();
  };
  bool interrupted = false;
  with_network(2, more, joining_network(), [&](caf::actor_system& system) {
    RunAddress run = shared->report->address(start.connect, start.wait);
    run.launched = start.launched;
    run.config = start.config;
    const Stoppable host = spawn(system, run, on_end);
    interrupted = wait_for_host(*shared, start.launched);
    if (interrupted) caf::anon_send(host, Stop{"interrupted"});
    return 0;
  });
  close_log();
  return shared->report->exit_code(interrupted);
}

}  // namespace troupe
