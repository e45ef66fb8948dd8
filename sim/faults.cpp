#include "sim/faults.h"

#include <algorithm>

#include <caf/actor_cast.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference_host.h"
#include "actors/worker_host.h"
#include "sim/actor_states.h"
#include "sim/schedule.h"

namespace troupe::sim {

namespace {

// Of rank processes, besides Scenario::max_faults, which are often over before the first update. At each step; more
// often while there is something to lose.
constexpr uint32_t kMostRankFaults = 12;
constexpr double kRankFault = 0.003, kRankFaultAtWork = 0.04;

bool is_initialized(SimulatedRun& run, const caf::strong_actor_ptr& actor) {
  const auto it = run.checker.actors().find(actor->id());
  return it != run.checker.actors().end() && it->second.initialized && it->second.alive;
}

// Whether an actor is this worker of a node or its grader.
bool belongs_to(SimulatedRun& run, const KnownActor& known, const WorkerActor& worker) {
  if (!known.is_grader()) return worker.address() == known.address;
  const auto pointer = caf::actor_cast<caf::strong_actor_ptr>(worker);
  if (!is_initialized(run, pointer)) return false;
  const WorkerState* state = worker_of(pointer->get());
  return state != nullptr && std::ranges::any_of(state->graders, [&](const GraderActor& grader) {
           return grader.address() == known.address;
         });
}

// The state of the host of an inference process; nullptr while it does not run.
InferenceHostState* host_state(SimulatedRun& run, const InferenceProcess& process) {
  const auto host = caf::actor_cast<caf::strong_actor_ptr>(process.host);
  return !process.host_ended && host && is_initialized(run, host) ? inference_host_of(host->get()) : nullptr;
}

bool kill_one(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted) {
  const auto victims = alive(run, wanted);
  if (victims.empty()) return false;
  const auto& victim = victims[run.rng.below(victims.size())];
  const KnownActor& known = run.checker.actors()[victim->id()];
  run.outcome.killed_scorers += known.role == Role::scoring;
  kill(run, victim, known.kind + "#" + std::to_string(known.ordinal));
  return true;
}

// The connection of a process waits for up to 8 s.
void stall(SimulatedRun& run, RemoteProcess& process) {
  run.event("a connection stalls");
  process.stalled_until = run.clock().now() + std::chrono::duration_cast<caf::actor_clock::duration_type>(
                                                  Seconds(run.rng.uniform_double() * 8));
}

// A rank process is lost, or may be, with what it has.
void lose_rank(SimulatedRun& run) {
  run.world.lost_ranks.push_back(run.checker.last_published().value_or(PolicyVersion{}).number);
}

bool kill_rank(SimulatedRun& run, RankProcess& rank) {
  const auto host = caf::actor_cast<caf::strong_actor_ptr>(rank.host);
  if (rank.host_ended || !is_initialized(run, host)) return false;
  run.event("a rank process is killed");
  const RankActor& trainer = rank_host_of(host->get())->rank;
  kill(run, caf::actor_cast<caf::strong_actor_ptr>(trainer), "of a rank");
  kill(run, host, "of a rank");
  cut(run, rank, false);
  rank.host_ended = true;
  lose_rank(run);
  ++run.outcome.killed_ranks;
  return true;
}

// The connection breaks, for both sides, or for the run alone while the rank process is frozen.
bool disconnect_rank(SimulatedRun& run, RankProcess& rank) {
  if (rank.host_ended || rank.links.empty() || rank.links.back()->given_up()) return false;
  lose_rank(run);
  if (run.rank_rng.below(2) == 0) {
    run.event("a connection of a rank breaks");
    cut(run, rank, false);
    ++run.outcome.broken_rank_connections;
    return true;
  }
  run.event("a rank process is frozen and given up");
  rank.stalled_until = run.clock().now() + std::chrono::duration_cast<caf::actor_clock::duration_type>(
                                               Seconds(run.rank_rng.uniform_double() * 8));
  for (const auto& link : rank.links) link->give_up();
  ++run.outcome.frozen_ranks;
  return true;
}

// What a member sends does not arrive any more. Before the first update, and where updates take long, the run has more
// patience than a simulation.
bool mute_rank(SimulatedRun& run, RankProcess& rank) {
  constexpr std::chrono::seconds kLongest{20};
  const auto host = caf::actor_cast<caf::strong_actor_ptr>(rank.host);
  if (rank.host_ended || rank.links.empty() || !is_initialized(run, host) || !rank_host_of(host->get())->rank)
    return false;
  const TrainerState* trainer = trainer_state(run);
  if (trainer == nullptr || !trainer->usual_update || *trainer->usual_update > kLongest) return false;
  run.event("nothing of a rank process arrives any more");
  for (const auto& link : rank.links) link->mute();
  lose_rank(run);
  ++run.outcome.muted_ranks;
  return true;
}

// Faults of the rank processes. Where the loss of one ends the run, it is one of the faults that do. Returns whether
// there was any.
bool trouble_ranks(SimulatedRun& run) {
  const RunConfig& config = run.scenario().config;
  const auto any = [&]() -> RankProcess& { return run.ranks[run.rank_rng.below(run.ranks.size())]; };
  const bool ends = divides_moments(config) && !keeps_copies(config);
  if (ends && run.endings >= run.scenario().max_endings) return false;
  bool lost = false;
  switch (run.rank_rng.below(5)) {
    case 0: lost = kill_rank(run, any()); break;
    case 1: lost = disconnect_rank(run, any()); break;
    case 2:
      stall(run, any());
      lose_rank(run);  // where it takes longer than a request may
      return true;
    case 3: lost = mute_rank(run, any()); break;
    default:  // two at once, which may end the run with copies, too
      if (divides_moments(config) && run.endings >= run.scenario().max_endings) return false;
      for (RankProcess& rank : run.ranks) lost |= kill_rank(run, rank);
      run.endings += lost && !ends && divides_moments(config);
  }
  run.endings += lost && ends;
  return lost;
}

// Whether ranks compute an update, or have slices of the moments.
bool ranks_are_at_work(SimulatedRun& run) {
  const TrainerState* trainer = trainer_state(run);
  return trainer != nullptr && (trainer->update || trainer->slices > 1);
}

// Kills an inference process.
void kill_process(SimulatedRun& run, InferenceProcess& process) {
  InferenceHostState* state = host_state(run, process);
  if (state == nullptr) return;
  run.event("an inference process is killed");
  kill(run, caf::actor_cast<caf::strong_actor_ptr>(state->inference), "of an inference process");
  kill(run, caf::actor_cast<caf::strong_actor_ptr>(state->receiver_actor), "of an inference process");
  kill(run, caf::actor_cast<caf::strong_actor_ptr>(process.host), "of an inference process");
  cut(run, process, false);
  process.host_ended = true;
  ++run.outcome.killed_inference_processes;
}

// Faults of one of the inference processes. Returns whether there was any.
bool trouble_inference(SimulatedRun& run) {
  InferenceProcess& process = run.inference_processes[run.rng.below(run.inference_processes.size())];
  const Scenario& s = run.scenario();
  bool any = false;
  if (run.chance(s.kill_inference / 3)) {
    kill_process(run, process);
    any = true;
  }
  if (run.chance(s.cut) && !process.links.empty()) {
    run.event("a connection of inference breaks");
    cut(run, process, false);
    any = true;
  }
  if (run.chance(s.stall)) {
    stall(run, process);
    any = true;
  }
  if (run.chance(s.kill_inference / 3))
    any |= kill_one(run, [](const KnownActor& known) { return known.kind == "weight plane"; });
  return any;
}

// Kills the trainer's process: all its actors at once; the disk keeps its contents.
void crash(SimulatedRun& run) {
  run.event("the process is killed");
  run.crashed = true;
  run.supervisor = nullptr;
  // An actor that has not run yet may start others before it handles its own end, so repeat until no actor is left.
  const auto ours = [&](const KnownActor& known) { return !is_elsewhere(run, known); };
  for (auto victims = alive(run, ours); !victims.empty(); victims = alive(run, ours)) {
    for (const auto& actor : victims) kill(run, actor, "all");
    run_only(run, ours);
  }
}

// A rank process that was frozen and given up notices that its connection is lost.
void wake_ranks(SimulatedRun& run) {
  for (RankProcess& rank : run.ranks)
    if (!rank.links.empty() && rank.links.back()->given_up() && run.clock().now() >= rank.stalled_until)
      cut(run, rank, false);
}

}  // namespace

bool is_elsewhere(SimulatedRun& run, const KnownActor& known) {
  if (known.kind == "worker host" || (known.is_rank() && !run.ranks.empty())) return true;
  if (known.is_inference_process()) return true;
  if (known.is_inference())  // it has not started yet
    return std::ranges::any_of(run.inference_processes, [&](const InferenceProcess& process) {
      const InferenceHostState* state = host_state(run, process);
      return state != nullptr && state->inference.address() == known.address;
    });
  if (!known.is_worker() && !known.is_grader()) return false;
  for (const WorkerProcess& node : run.nodes) {
    const auto host = caf::actor_cast<caf::strong_actor_ptr>(node.host);
    if (!host || node.host_ended) continue;
    const auto* typed =
        dynamic_cast<std::remove_pointer_t<SelfPointer<WorkerHostActor, WorkerHostState>>*>(host->get());
    if (typed != nullptr && is_initialized(run, host) && typed->state.worker &&
        belongs_to(run, known, typed->state.worker))
      return true;
  }
  return false;
}

const TrainerState* trainer_state(SimulatedRun& run) {
  const auto trainers =
      alive(run, [](const KnownActor& known) { return known.kind == "trainer" && known.initialized; });
  return trainers.empty() ? nullptr : trainer_of(trainers.front()->get());
}

std::vector<caf::strong_actor_ptr> alive(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted) {
  for (caf::resumable* job : run.scheduler->jobs)
    if (auto* actor = dynamic_cast<caf::scheduled_actor*>(job)) run.checker.know(*actor);
  std::vector<caf::strong_actor_ptr> result;
  for (auto& [id, known] : run.checker.actors()) {
    if (!known.alive || !wanted(known)) continue;
    if (auto pointer = caf::actor_cast<caf::strong_actor_ptr>(known.address)) result.push_back(pointer);
  }
  return result;
}

void kill(SimulatedRun& run, const caf::strong_actor_ptr& actor, const std::string& what) {
  if (!actor) return;
  run.event("kill " + what);
  run.evaluation_killed |= what.starts_with("evaluation#");
  actor->enqueue(nullptr, caf::make_message_id(caf::message_priority::high),
                 caf::make_message(caf::exit_msg{caf::actor_addr{}, caf::exit_reason::kill}), nullptr);
}

void cut(SimulatedRun& run, RemoteProcess& process, bool late) {
  for (const auto& link : process.links) link->cut(late);
  run.old_links.insert(run.old_links.end(), process.links.begin(), process.links.end());
  process.links.clear();
}

void inject_faults(SimulatedRun& run) {
  const Scenario& s = run.scenario();
  wake_ranks(run);
  begin_calm_if_due(run);
  if (run.live.calm) {
    if (run.chance(0.2)) run.scheduler->advance_time(std::chrono::microseconds(1 + run.rng.below(5'000)));
    return;
  }
  if (run.chance(s.clock)) {
    const double seconds = run.chance(0.1) ? run.rng.uniform_double() * 20 : run.rng.uniform_double() * 0.2;
    run.event("the clock advances by " + std::to_string(seconds) + " s");
    run.scheduler->advance_time(std::chrono::duration_cast<caf::timespan>(Seconds(seconds)));
    // The answer that a rank is taken in may come too late: then it joins again, although it takes part by now.
    if (!run.ranks.empty() && Seconds(seconds) > kLeastJoinDeadline) lose_rank(run);
  }
  if (!run.ranks.empty() && run.rank_faults < kMostRankFaults &&
      run.rank_rng.uniform_double() < (ranks_are_at_work(run) ? kRankFaultAtWork : kRankFault) && trouble_ranks(run)) {
    ++run.rank_faults;
    run.idle_seconds = 0;
  }
  if (run.outcome.faults >= s.max_faults) return;
  const auto counted = [&](bool happened) {
    run.outcome.faults += happened;
    run.idle_seconds = 0;
  };
  const auto disturbing = [&](bool happened) {
    counted(happened);
    run.disturbed |= happened;
  };
  const auto samples = [](const KnownActor& known) { return known.is_worker() || known.is_grader(); };
  if (run.chance(s.kill_worker)) disturbing(kill_one(run, samples));
  if (run.chance(s.kill_inference)) counted(kill_one(run, &KnownActor::is_inference));
  if (run.endings < s.max_endings) {
    if (run.chance(s.kill_essential)) {
      const auto essential = [&](const KnownActor& known) {
        return !known.is_worker() && !known.is_grader() && !known.is_inference() && !is_elsewhere(run, known) &&
               known.kind != "supervisor" && known.kind != "weight plane";
      };
      if (kill_one(run, essential)) {
        run.cause = true;
        ++run.endings;
        disturbing(true);
      }
    } else if (run.chance(s.crash)) {
      ++run.endings;
      counted(true);
      return crash(run);
    } else if (run.chance(s.interrupt) && !run.interrupted) {
      run.event("interrupt");
      run.interrupted = true;
      ++run.endings;
      counted(true);
      caf::anon_send(run.supervisor, Stop{"interrupted"});
    }
  }
  if (run.chance(s.disk) && !run.disk_fault) {
    run.disk_fault = run.disk_faults_ever = true;
    const bool crash_there = run.endings < s.max_endings && run.chance(0.5);
    run.disk_crashes |= crash_there;
    run.event(crash_there ? "the disk will truncate a write" : "the disk will refuse a write");
    run.disk.set_fault({crash_there ? DiskFault::Kind::crash : DiskFault::Kind::refuse,
                        run.disk.operations() + run.rng.below(12), 1 + run.rng.below(8)});
    counted(true);
  }
  if (!run.inference_processes.empty()) counted(trouble_inference(run));
  if (run.nodes.empty()) return;
  WorkerProcess& node = run.nodes[run.rng.below(run.nodes.size())];
  if (run.chance(s.cut) && !node.links.empty()) {
    run.event("a connection breaks");
    cut(run, node, run.chance(0.3));
    disturbing(true);
  }
  if (run.chance(s.stall)) {
    stall(run, node);
    disturbing(true);
  }
  if (run.chance(s.kill_node) && !node.host_ended) {
    run.event("a worker process is killed");
    for (const auto& actor : alive(run, [&](const KnownActor& known) {
           return known.address == node.host.address() || (known.is_worker() && is_elsewhere(run, known));
         }))
      kill(run, actor, "of a node");
    cut(run, node, false);
    node.host_ended = true;
    disturbing(true);
  }
}

}  // namespace troupe::sim
