#include "sim/liveness.h"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/rank_trainer.h"
#include "actors/trainer_watch.h"
#include "sim/actor_states.h"
#include "sim/faults.h"
#include "sim/simulated_run.h"

namespace troupe::sim {

namespace {

constexpr uint64_t kEvery = 64;  // events between two checks
// In seconds of the clock, all longer than the timeouts and pauses that are left from the time of the faults.
constexpr double kWeights = 30, kServing = 30;
constexpr uint64_t kUpdatesUnasked = 3;  // a rank that joins during an update is asked in the next one

// Nothing while the run does not train: it starts or ends.
SupervisorState* running(SimulatedRun& run) {
  const auto pointer = caf::actor_cast<caf::strong_actor_ptr>(run.supervisor);
  SupervisorState* state = pointer ? supervisor_of(pointer->get()) : nullptr;
  return state != nullptr && state->phase == SupervisorState::Phase::running ? state : nullptr;
}

std::string for_seconds(double seconds) { return " for " + std::to_string(static_cast<int>(seconds)) + " s"; }

void check_progress(SimulatedRun& run, Liveness& live) {
  const uint64_t now = run.checker.updates() + run.world.steps_of_warmup + run.outcome.processes;
  if (std::exchange(live.progress, now) != now) live.progressed = run.now();
  if (run.now() - live.progressed > most_seconds_without_progress(run))
    run.world.violate("there are no more faults, but the run has made no progress" +
                      for_seconds(run.now() - live.progressed) + run.checker.dump());
}

// An inference actor gets each version, or a later one, soon after it was published.
void check_weights(SimulatedRun& run, Liveness& live, const KnownActor& known, const InferenceState& state) {
  const std::optional<PolicyVersion> published = run.checker.last_published();
  if (!published || state.role != Role::sampling) return;
  const caf::actor_id id = known.address.id();
  const auto awaited = live.awaited.find(id);
  if (awaited == live.awaited.end() || (state.version && *state.version >= awaited->second.version)) {
    live.awaited[id] = {*published, run.now()};
    return;
  }
  if (run.now() - awaited->second.since > kWeights)
    run.world.violate("there are no more faults, but inference #" + std::to_string(known.ordinal) +
                      " has not got version " + awaited->second.version.text() +
                      for_seconds(run.now() - awaited->second.since) + run.checker.dump());
}

void check_process(SimulatedRun& run, Liveness& live, size_t index) {
  const InferenceProcess& process = run.inference_processes[index];
  const auto host = caf::actor_cast<caf::strong_actor_ptr>(process.host);
  const InferenceHostState* state = process.host_ended || !host ? nullptr : inference_host_of(host->get());
  if (state != nullptr && state->serving) {
    live.away.erase(index);
    return;
  }
  const double since = live.away.try_emplace(index, run.now()).first->second;
  if (run.now() - since > kServing)
    run.world.violate("there are no more faults, but inference process " + std::to_string(index) + " serves nobody" +
                      for_seconds(run.now() - since) + run.checker.dump());
}

void check_rank(SimulatedRun& run, Liveness& live, const KnownActor& known) {
  const caf::actor_id id = known.address.id();
  const uint64_t updates = run.checker.updates();
  uint64_t& asked = live.asked.try_emplace(id, updates).first->second;
  asked = std::max(asked, run.checker.asked(id));
  if (updates > asked + kUpdatesUnasked)
    run.world.violate("there are no more faults, but " + known.kind + " #" + std::to_string(known.ordinal) +
                      " was not asked in the last " + std::to_string(updates - asked) + " updates");
}

}  // namespace

double most_seconds_without_progress(SimulatedRun& run) {
  constexpr double kInference = 120;  // it fails for about 95 s until a worker ends
  constexpr double kRanks = 150;      // one that does not answer is lost after 120 s, asked every 10 s
  constexpr double kLoss = 30;
  if (run.ranks.empty()) return kInference;
  const TrainerState* trainer = trainer_state(run);
  if (trainer == nullptr || !trainer->usual_update) return kRanks;
  return std::max(kRanks, static_cast<double>(patience(*trainer).count()) + kLoss);
}

void begin_calm_if_due(SimulatedRun& run) {
  if (run.live.calm || run.outcome.events < run.scenario().calm_after) return;
  run.live = {.calm = true, .progressed = run.now()};
  run.event("there are no more faults");
  run.world.faults_on = false;
  if (!run.disk_crashes) run.disk.clear_fault();  // one that has crashed works again in the next process
  for (RemoteProcess* process : run.remote_processes()) process->stalled_until = run.clock().now();
}

void check_liveness(SimulatedRun& run) {
  Liveness& live = run.live;
  if (!live.calm || run.ended || run.outcome.events < live.checked_at + kEvery) return;
  live.checked_at = run.outcome.events;
  check_progress(run, live);
  if (running(run) == nullptr) {
    live.awaited.clear();
    live.away.clear();
    live.asked.clear();
    return;
  }
  for (auto& [id, known] : run.checker.actors()) {
    const auto pointer = known.alive ? caf::actor_cast<caf::strong_actor_ptr>(known.address) : nullptr;
    if (!pointer || !known.initialized) continue;
    if (const InferenceState* state = inference_of(pointer->get())) check_weights(run, live, known, *state);
    if (known.kind == RankTrainerState::name) check_rank(run, live, known);
  }
  for (size_t i = 0; i < run.inference_processes.size(); ++i) check_process(run, live, i);
}

}  // namespace troupe::sim
