#pragma once
// WeightIntake: in an inference process, makes the blocking steps of a WeightReceiver and hands what arrives to the inference
// actor, which serves its old weights meanwhile. Detached. WeightReceiver::stop() ends it.

#include <memory>

#include "actors/messages.h"
#include "runtime/weights/receiver.h"

namespace troupe {

struct IntakePeers {
  WeightsHolder inference;
  caf::typed_actor<caf::reacts_to<Serving>> host;  // told once there are weights to serve with
};

struct WeightIntakeState {
  static inline const char* name = "weight intake";
  ~WeightIntakeState();

  std::shared_ptr<WeightReceiver> receiver;
  IntakePeers peers;
  uint64_t id = 0;
  bool serving = false;
};

// `threads` false: the actor never waits, it looks again and again by its clock.
WeightIntakeActor::behavior_type weight_intake(WeightIntakeActor::stateful_pointer<WeightIntakeState> self,
                                               std::shared_ptr<WeightReceiver> receiver, uint64_t id, IntakePeers peers,
                                               bool threads);

}  // namespace troupe
