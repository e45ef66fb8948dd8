#include <csignal>

#include <chrono>
#include <future>
#include <iostream>
#include <optional>

#include <caf/actor_system.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/supervisor.h"
#include "runtime/caf_owned_system.h"
#include "runtime/config.h"
#include "runtime/log.h"
#include "runtime/process_stats.h"
#include "tools/commands.h"
#include "tools/config_lookup.h"
#include "tools/launch.h"
#include "tools/learn_wiring.h"
#include "tools/run_report.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRunEnded = SIGUSR1;  // we send it to ourselves when the supervisor is done

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, kRunEnded}) sigaddset(&set, signal);
  return set;
}

std::string run_folder_of(const TrainOptions& options, const RunConfig& config) {
  return options.run_dir.empty() ? "runs/" + config.name : options.run_dir;
}

// Where a resumed run goes on; restores the learner.
ReplayStart restore(RunFolder& folder, Learner& learner) {
  ReplayStart start;
  if (!folder.resuming()) return start;
  const std::optional<Checkpoint> checkpoint = folder.checkpoints().recover();
  if (!checkpoint) return start;
  learner.load({checkpoint->model, checkpoint->optimizer, checkpoint->scalars});
  start.version = {checkpoint->version.epoch + 1, checkpoint->version.number};
  start.env_steps = checkpoint->env_steps;
  const auto count = [&](const char* name) {
    const auto it = checkpoint->scalars.find(name);
    return it == checkpoint->scalars.end() ? uint64_t{0} : static_cast<uint64_t>(it->second);
  };
  start.ledger = {count("ledger.produced"),     count("ledger.trained"),       count("ledger.dropped_stale"),
                  count("ledger.dropped_full"), count("ledger.lost_in_crash"), count("ledger.waiting")};
  log_info("train", "resuming at update " + std::to_string(start.version.number));
  std::cout << "resuming at update " << start.version.number << ", " << start.env_steps << " environment steps\n";
  return start;
}

// Publishes the gate for workers; throws ConfigError when the address is taken.
uint16_t publish(caf::actor_system& system, const SupervisorActor& supervisor, const Address& listen) {
  const auto port = system.middleman().publish(GateActor(supervisor), listen.port, listen.host.c_str(), true);
  if (!port) throw ConfigError("--listen " + listen.text() + ": cannot listen: " + describe(port.error()));
  return *port;
}

void write_endpoints(RunFolder& folder, const std::string& workers, const std::string& stats) {
  nlohmann::json endpoints{{"pid", getpid()}};
  if (!workers.empty()) endpoints["workers"] = workers;
  if (!stats.empty()) endpoints["stats"] = stats;
  folder.write_endpoints(endpoints.dump(2) + "\n");
}

// Waits for the end of the run; asks it to end at the first Ctrl-C, leaves at once at the second. True when interrupted.
bool wait_for_end(const SupervisorActor& supervisor) {
  const sigset_t signals = watched_signals();
  bool interrupted = false;
  for (;;) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal == kRunEnded) return interrupted;
    if (signal < 0) continue;
    if (interrupted) _exit(kExitInterrupted);
    interrupted = true;
    std::cerr << "\nstopping: a checkpoint is being written (again to stop at once)\n";
    caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(supervisor), Stop{"interrupted"});
  }
}

// The same actors on this thread: messages in order, then the next timer.
bool drive_to_end(caf::actor_system& system, const SupervisorActor& supervisor, const bool& ended) {
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  const sigset_t signals = watched_signals();
  const timespec now{0, 0};
  bool interrupted = false;
  while (!ended) {
    while (scheduler.try_run_once()) {
    }
    if (ended) break;
    const int signal = sigtimedwait(&signals, nullptr, &now);
    if (signal == SIGINT || signal == SIGTERM) {
      if (interrupted) _exit(kExitInterrupted);
      interrupted = true;
      caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(supervisor), Stop{"interrupted"});
      continue;
    }
    TROUPE_CHECK(scheduler.trigger_timeout(), "the run waits for nothing");
  }
  while (scheduler.try_run_once()) {
  }
  return interrupted;
}

}  // namespace

int run_train(const TrainOptions& options) {
  const auto begun = Clock::now() - process_age();
  const RunConfig config = load_run_config(options.config, options.overrides, options.seed);
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: they inherit it

  const std::shared_ptr<Wiring> wiring = learn_wiring(config);
  if (!config.deterministic) wiring->started = begun;
  std::shared_ptr<Learner> learner = learner_of(*wiring);
  RunFolder folder(posix_disk(), run_folder_of(options, config), to_json(config),
                   [](const std::string& text) { return to_json(parse_config(text, "config.json")); });
  open_log(folder.open_log_file());
  log_info("train", config.env.id + " with seed " + std::to_string(config.seed) + ", process " + std::to_string(getpid()));
  const ReplayStart start = restore(folder, *learner);
  const double wall_time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  folder.begin_metrics(wall_time, start.version.number == 0
                                      ? std::nullopt
                                      : std::optional(RunFolder::ResumePoint{start.version.number, static_cast<int64_t>(start.env_steps)}));

  std::optional<StatsSocket> socket;
  if (!config.deterministic)
    socket.emplace(StatsSocketOptions{.host = options.stats.host, .port = options.stats.port, .run = config.name,
                                      .config = to_json(config), .max_snapshots = static_cast<size_t>(config.stats.history)});
  auto report = std::make_shared<RunReport>(folder, socket ? &*socket : nullptr, config);

  RunOutcome outcome;
  bool ended = false, interrupted = false;
  {
    OwnedSystem owned({.scheduler = config.deterministic ? SchedulerKind::single_step : SchedulerKind::threads,
                       .threads = 2,
                       .network = !config.deterministic,
                       .network_config = config.network},
                      register_messages);
    caf::actor_system& system = owned.get();
    RunParts parts{learner, start, report, [&](const RunOutcome& result) {
                     outcome = result;
                     ended = true;
                     kill(getpid(), kRunEnded);
                   }};
    SupervisorActor root = system.spawn(supervisor, wiring, parts);
    if (config.deterministic) {
      interrupted = drive_to_end(system, root, ended);
    } else {
      const uint16_t port = publish(system, root, options.listen);
      const std::string workers = Address{options.listen.host, port}.text();
      write_endpoints(folder, workers, socket->address());
      std::cout << "run folder " << folder.path() << "\nworkers    troupe worker --connect " << workers << "\nstatistics "
                << socket->address() << std::endl;
      interrupted = wait_for_end(root);
      system.middleman().unpublish(caf::actor_cast<caf::actor>(root), port);
    }
    learner.reset();
  }
  report->finish(outcome, std::chrono::duration<double>(Clock::now() - begun).count());
  if (socket) socket->stop();
  log_info("train", "ended: " + (outcome.error.empty() ? outcome.reason : outcome.error));
  close_log();
  if (!outcome.error.empty()) {
    std::cerr << "troupe: the run ended: " << outcome.error << '\n';
    return kExitFailure;
  }
  return interrupted ? kExitInterrupted : 0;
}

}  // namespace troupe
