#include "sim/simulation.h"

#include <string>

#include "sim/faults.h"
#include "sim/processes.h"
#include "sim/schedule.h"
#include "sim/simulated_run.h"

namespace troupe::sim {

namespace {

constexpr uint64_t kMaxProcesses = 8;

Outcome run_to_the_end(SimulatedRun& run) {
  run.outcome.scenario = run.scenario().text();
  while (!run.done && !run.world.violation) {
    if (run.outcome.processes >= kMaxProcesses)
      run.world.violate("the run does not end within " + std::to_string(kMaxProcesses) + " processes");
    if (run.world.violation) break;
    run_process(run);
    if (!run.world.violation) end_process(run);
  }
  if (!run.world.violation) finish(run);
  // After a violation, actors may be left. They must be ended, because their timers would keep the system busy forever.
  run.system->await_actors_before_shutdown(false);
  const auto anyone = [](const KnownActor&) { return true; };
  for (auto rest = alive(run, anyone); !rest.empty(); rest = alive(run, anyone)) {
    for (const auto& actor : rest) kill(run, actor, "the rest");
    run_only(run, anyone);
  }
  for (RemoteProcess* process : run.remote_processes()) cut(run, *process, false);
  run.outcome.violation = run.world.violation;
  run.outcome.updates = run.checker.updates();
  run.outcome.recoveries = run.checker.recoveries();
  run.outcome.largest_mailbox = run.checker.largest_mailbox();
  run.outcome.shared_score_calls = run.world.scores.shared_calls;
  run.outcome.lost_groups = run.world.scores.lost.size();
  run.outcome.shared_scorings = run.world.tokens.shared_scorings;
  run.outcome.transfers = run.world.transfers;
  run.outcome.damaged_transfers = run.world.damaged_transfers;
  run.outcome.broken_transfers = run.world.broken_transfers;
  run.outcome.turns = run.world.tokens.turns;
  run.outcome.computed_anew = run.world.tokens.computed_anew;
  return run.outcome;
}

}  // namespace

Outcome simulate(uint64_t seed, Mutation mutation, const std::function<void(const std::string&)>& trace, RunKind kind) {
  SimulatedRun run(draw_scenario(seed, mutation, kind), trace);
  return run_to_the_end(run);
}

bool catches(const MutationInfo& bug, const Outcome& outcome) {
  return outcome.violation && outcome.violation->find(bug.caught_by) != std::string::npos;
}

}  // namespace troupe::sim
