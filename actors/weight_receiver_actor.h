#pragma once
// WeightReceiverActor: runs the blocking steps of a WeightReceiver in an inference process and sends new weights to the
// inference actor, which serves its old weights meanwhile. Detached. WeightReceiver::stop() ends it.

#include <memory>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/weights/receiver.h"

namespace troupe {

struct WeightReceiverPeers {
  WeightsHolder inference;
  caf::typed_actor<caf::reacts_to<Serving>> host;  // told when the first weights have arrived
};

struct WeightReceiverState {
  static inline const char* name = "weight receiver";
  ~WeightReceiverState();

  std::shared_ptr<WeightReceiver> receiver;
  WeightReceiverPeers peers;
  InferenceIndex inference_index = 0;
  bool serving = false;
};

// With context->threads false the actor never blocks: it polls on a timer.
WeightReceiverActor::behavior_type weight_receiver_actor(SelfPointer<WeightReceiverActor, WeightReceiverState> self,
                                                         std::shared_ptr<WeightReceiver> receiver,
                                                         InferenceIndex inference_index, WeightReceiverPeers peers,
                                                         const RunContextPtr& context);

}  // namespace troupe
