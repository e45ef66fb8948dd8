#pragma once
// WeightPlane: makes the blocking steps of the WeightSender, and hands its invitations to the inference processes.
// Detached; spawned by the publisher when the first of them joins, because the process group's backend costs time and
// memory. It ends with the publisher, or when there is no backend.

#include <map>
#include <memory>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/weights/channel.h"

namespace troupe {

using PlaneDriver = caf::typed_actor<caf::reacts_to<PlaneReady>, caf::reacts_to<PlaneStep>>;

// What both ends of the weight plane use. Without threads no wait can succeed later, so every limit is 0.
ChannelOptions channel_options(const RunContext& context);

struct WeightPlaneState {
  static inline const char* name = "weight plane";
  RunContextPtr context;
  PlaneDriver driver;
  std::map<InferenceIndex, InferenceMember> hosts;
  std::shared_ptr<WeightSender> sender;
};

WeightPlaneActor::behavior_type weight_plane(WeightPlaneActor::stateful_pointer<WeightPlaneState> self,
                                             RunContextPtr context, std::shared_ptr<const Signature> signature,
                                             PlaneDriver driver);

}  // namespace troupe
