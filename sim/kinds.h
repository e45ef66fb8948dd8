#pragma once
// What the simulator knows of each kind of experience. Plain functions; one thread.

#include <cstdint>
#include <map>
#include <vector>

#include "actors/messages.h"
#include "sim/fakes.h"

namespace troupe::sim {

struct SimulatedKind {
  uint64_t (*samples)(const Rollout& rollout);
  uint64_t (*without_spread)(const Rollout& rollout);  // samples of groups in which all have the same reward
  // A rollout arrives at replay: checks it against what really happened.
  void (*check_rollout)(World& world, const Rollout& rollout, const std::map<uint64_t, bool>& published);
  // An update is about to use this batch.
  void (*check_use)(World& world, const SuperBatch& batch);
  // The marks `trained` of those samples of a part of a batch that the update with this index trains on.
  std::vector<bool*> (*trained)(World& world, const RolloutUnits& part, uint64_t index);
  // An inference actor takes a request.
  void (*note_request)(World& world, const InferenceRequest& request, uint64_t process);
  bool workers_count_produced;  // World::produced follows the reports of workers; else the environments add to it
  bool requests_may_wait;       // at an inference actor, while no message is in flight
};

const SimulatedKind& simulated_kind(const World& world);

}  // namespace troupe::sim
