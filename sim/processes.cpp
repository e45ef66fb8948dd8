#include "sim/processes.h"

#include <algorithm>

#include <caf/actor_registry.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/inference_host.h"
#include "actors/rank_group.h"
#include "actors/rank_host.h"
#include "actors/resume.h"
#include "actors/worker_host.h"
#include "runtime/run_folder/run_folder.h"
#include "runtime/run_folder/start_files.h"
#include "sim/fake_learner.h"
#include "sim/faults.h"
#include "sim/schedule.h"

namespace troupe::sim {

namespace {

constexpr uint64_t kMaxEvents = 60'000;  // per simulation; a normal one needs a few thousand

// The address at which a process finds the run: each time over a new connection.
RunAddress address_for(SimulatedRun& run, RemoteProcess& process) {
  RunAddress address;
  address.local = [&run, &process]() -> JoinService {
    if (!run.supervisor) return {};
    auto link = std::make_shared<Link>(*run.system, [&run](const caf::strong_actor_ptr& from, caf::actor_id proxy,
                                                           const caf::type_erased_tuple& content) {
      if (from && content.match_elements<InferenceReply>())
        run.checker.answer_sent(from->id(), proxy, content.get_as<InferenceReply>(0));
    });
    process.links.push_back(link);
    return caf::actor_cast<JoinService>(
        link->stand_in(caf::actor_cast<caf::strong_actor_ptr>(run.supervisor), Direction::to_run));
  };
  return address;
}

void check_welcome(SimulatedRun& run, const std::string& config) {
  if (config == run.welcomed) return;
  if (!run.welcomed.empty() || parse_config(config, "welcome") != run.context->config)
    run.world.violate("a welcome contains a different config");
  run.welcomed = config;
}

void spawn_inference(SimulatedRun& run) {
  for (InferenceProcess& process : run.inference_processes) {
    if (!process.host_ended) continue;
    process.host_ended = false;
    process.host = run.system->spawn(
        inference_host,
        InferenceHostDependencies{.run = address_for(run, process),
                                  .make_context =
                                      [&run, &process](const std::string& config) {
                                        check_welcome(run, config);
                                        return process.context;
                                      },
                                  .route_to = [](const std::string&) { return Route{"127.0.0.1", "127.0.0.1"}; },
                                  .on_end =
                                      [&run, &process](const std::string& error) {
                                        run.event("an inference process ended: " + error);
                                        process.host_ended = true;
                                      },
                                  .role = process.role});
  }
}

void spawn_workers(SimulatedRun& run) {
  for (WorkerProcess& node : run.nodes) {
    if (!node.host_ended) continue;
    node.host_ended = false;
    node.host = run.system->spawn(
        worker_host, address_for(run, node),
        [&run](const std::string& config) -> RunContextPtr {
          check_welcome(run, config);
          return run.context;
        },
        [&run, &node](const std::string& error) {
          run.event("a worker host ended: " + error);
          node.host_ended = true;
        });
  }
}

void spawn_ranks(SimulatedRun& run) {
  for (RankProcess& rank : run.ranks) {
    if (!rank.host_ended) continue;
    rank.host_ended = false;
    rank.host = run.system->spawn(rank_host, RankHostDependencies{address_for(run, rank),
                                                                  [&run](const std::string& config) {
                                                                    check_welcome(run, config);
                                                                    return run.context;
                                                                  },
                                                                  [&run, &rank](const std::string& error) {
                                                                    run.event("a rank process ended: " + error);
                                                                    rank.host_ended = true;
                                                                  }});
  }
}

void spawn_hosts(SimulatedRun& run) {
  spawn_workers(run);
  spawn_inference(run);
  spawn_ranks(run);
}

// Starts with the weights of a run that has made 37 updates.
ReplayStart warm_start(SimulatedRun& run, FakeLearner& learner) {
  FakeLearner former(run.world, 0);
  LearnerState state = former.save();
  state.model.at("origin") = Array::of<int64_t>({1}, {run.scenario().given_weights});
  if (run.scenario().mutation == Mutation::warm_start_lost) return {};
  if (run.scenario().mutation != Mutation::warm_start_counted) return start_from(state.model, learner);
  Checkpoint checkpoint;
  constexpr uint64_t kUpdates = 37;
  checkpoint.version = {0, kUpdates};
  checkpoint.updates = kUpdates;
  checkpoint.env_steps = 1000;
  former.become(kUpdates);
  state = former.save();
  state.model.at("origin") = Array::of<int64_t>({1}, {run.scenario().given_weights});
  checkpoint.model = state.model;
  checkpoint.optimizer = state.optimizer;
  checkpoint.scalars = state.scalars;
  return resume(checkpoint, learner);
}

void start_process(SimulatedRun& run) {
  ++run.outcome.processes;
  run.disk.clear_fault();
  run.disk_crashes = run.disk_fault = run.ended = run.crashed = run.cause = run.interrupted = run.disturbed =
      run.evaluation_killed = false;
  run.run_outcome = {};
  run.sink = std::make_shared<SimulatedSink>(run.world, run.checker, run.disk, run.disk_faults_ever);
  ReplayStart start;
  const std::optional<Checkpoint> checkpoint = run.sink->store().recover();
  run.disk.make_directory("run");
  const uint32_t epoch = take_epoch(run.disk, "run", checkpoint ? checkpoint->version.epoch + 1 : 0);
  auto learner = std::make_shared<FakeLearner>(run.world, epoch);
  if (checkpoint)
    start = resume(*checkpoint, *learner);
  else if (run.scenario().given_weights != 0)
    start = warm_start(run, *learner);
  run.sink->begin();
  if (!checkpoint && (start.version.number != 0 || start.env_steps != 0 || start.ledger.produced != 0))
    run.world.violate("a new run starts with the counts of another one: version " + start.version.text());
  start.version.epoch = epoch;
  if (run.scenario().mutation == Mutation::epoch_kept && run.outcome.processes > 1) --start.version.epoch;
  if (run.outcome.processes > 1 && start.version.epoch <= run.start_version.epoch)
    run.world.violate("epoch " + std::to_string(start.version.epoch) + " is used again after a resume");
  if (checkpoint) {
    if (start.env_steps != start.ledger.produced)
      run.world.violate("a checkpoint has " + std::to_string(start.env_steps) + " steps and " + start.ledger.text());
    if (!start.ledger.balances()) run.world.violate("a restored ledger does not balance: " + start.ledger.text());
  }
  run.start_version = start.version;
  run.event("process " + std::to_string(run.outcome.processes) + " starts at " + start.version.text());
  run.checker.begin_process(start);
  RunDependencies dependencies{learner, start, run.sink, [&run](const RunOutcome& outcome) {
                                 if (run.ended) run.world.violate("the run ends twice");
                                 run.ended = true;
                                 run.run_outcome = outcome;
                               }};
  run.supervisor = run.system->spawn(supervisor, run.context, dependencies);
  if (run.scenario().mutation == Mutation::actor_leaked)
    run.leaked = run.system->spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; });
  spawn_hosts(run);
}

// Whether a run may have lost the moments of a slice: with the rank, or with another one within two updates, before its
// copy was there again.
bool may_lose_moments(const SimulatedRun& run) {
  const RunConfig& config = run.scenario().config;
  std::vector<uint64_t> lost = run.world.lost_ranks;
  if (!divides_moments(config) || lost.empty()) return false;
  if (!keeps_copies(config)) return true;
  std::ranges::sort(lost);
  return std::ranges::adjacent_find(lost, [](uint64_t a, uint64_t b) { return b - a <= 2; }) != lost.end();
}

constexpr const char* kLostMoments = "a part of the optimizer's state";  // in the error of such a run

bool is_explained(const SimulatedRun& run, const RunOutcome& result) {
  const auto says = [&](const char* words) { return result.error.find(words) != std::string::npos; };
  return says("on purpose") || says("not finite") || run.cause ||
         (!run.ranks.empty() && result.reason == "ranks are missing") || (says(kLostMoments) && may_lose_moments(run));
}

void check_outcome(SimulatedRun& run) {
  const RunConfig& config = run.scenario().config;
  const RunOutcome& result = run.run_outcome;
  const auto wrong = [&](const std::string& what) {
    run.world.violate(what + " (reason \"" + result.reason + "\", error \"" + result.error + "\")");
  };
  if (!result.error.empty()) {
    run.outcome.lost_moments += result.error.find(kLostMoments) != std::string::npos;
    if (!is_explained(run, result)) wrong("the run ended with an unexplained error");
    return;
  }
  // Remote workers may still be stepping for the previous process.
  if (!run.disturbed && (run.outcome.processes == 1 || run.nodes.empty())) run.checker.check_last(run.sink->last());
  if (!result.checkpoint_written && !run.disk_faults_ever) wrong("there is no last checkpoint");
  if (result.checkpoint_written) {
    const auto checkpoint = run.sink->store().load_newest();
    if (!checkpoint || checkpoint->version != result.version)
      wrong("the last checkpoint is not for version " + result.version.text());
  }
  if (result.reason == "interrupted") {
    if (!run.interrupted) wrong("the run was not interrupted");
    return;
  }
  if (result.version.number != static_cast<uint64_t>(config.stop.updates))
    wrong("the run ended at version " + result.version.text());
  if (run.interrupted) return;
  if (!result.evaluation) return wrong("there is no last evaluation");
  if (result.evaluation->version != result.version)
    wrong("the last evaluation is for version " + result.evaluation->version.text());
  if (run.evaluation_killed && !result.evaluation->error.empty()) return;
  if (!result.evaluation->error.empty() ||
      result.evaluation->ended() != static_cast<uint64_t>(config.evaluation.episodes))
    wrong("the last evaluation has " + std::to_string(result.evaluation->ended()) +
          " episodes: " + result.evaluation->error);
}

}  // namespace

void run_process(SimulatedRun& run) {
  start_process(run);
  run.idle_seconds = 0;
  while (!run.ended && !run.crashed && !run.world.violation) {
    if (run.checker.updates() != run.progress) run.idle_seconds = 0;
    run.progress = run.checker.updates();
    if (run.outcome.events > kMaxEvents) return run.world.violate("the run does not end" + run.checker.dump());
    inject_faults(run);
    if (run.crashed || run.world.violation) break;
    if (run.rank_rng.uniform_double() < 0.02) spawn_ranks(run);  // otherwise they would only join between two updates
    if (!step(run)) {
      spawn_hosts(run);
      if (run.scheduler->jobs.empty()) idle(run);
    }
    check_liveness(run);
  }
}

void end_process(SimulatedRun& run) {
  if (!run.crashed) drain(run);
  run.supervisor = nullptr;
  if (run.world.violation) return;
  if (!run.crashed) check_outcome(run);
  run.event(run.crashed ? "killed" : "ended: " + run.run_outcome.reason + " " + run.run_outcome.error);
  run.outcome.end = run.crashed                     ? "killed"
                    : run.run_outcome.error.empty() ? run.run_outcome.reason
                                                    : run.run_outcome.error;
  for (RemoteProcess* process : run.remote_processes()) cut(run, *process, false);
  if (!run.crashed) drain(run);
  const auto left = alive(run, [&](const KnownActor& known) {
    return known.kind != "worker host" && !known.is_worker() && !known.is_grader() && !is_elsewhere(run, known) &&
           (run.ranks.empty() || !known.is_rank());
  });
  if (!left.empty()) run.world.violate("actors outlive the run:" + run.checker.dump());
  run.done = !run.crashed && run.run_outcome.error.empty() && run.run_outcome.reason != "interrupted";
  if (run.endings < run.scenario().max_endings) ++run.endings;
  if (run.endings >= 2 || run.outcome.processes >= 3) {
    run.world.scenario.learner_throws = run.world.scenario.update_skipped = 0;
    run.world.scenario.max_endings = 0;
  }
}

void finish(SimulatedRun& run) {
  for (WorkerProcess& node : run.nodes)
    if (!node.host_ended) caf::anon_send(node.host, Stop{"the end"});
  for (InferenceProcess& process : run.inference_processes)
    if (!process.host_ended) caf::anon_send(caf::actor_cast<InferenceMember>(process.host), Stop{"the end"});
  for (RankProcess& rank : run.ranks)
    if (!rank.host_ended) caf::anon_send(rank.host, Stop{"the end"});
  drain(run);
  if (run.world.violation) return;
  const size_t running = run.system->registry().running();
  if (running != run.running_at_rest)
    run.world.violate(std::to_string(running - run.running_at_rest) +
                      " actors are left at the end:" + run.checker.dump());
}

}  // namespace troupe::sim
