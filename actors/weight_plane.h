#pragma once
// WeightPlane: runs the blocking steps of the WeightSender and sends its invitations to the inference processes.
// Detached. The publisher spawns it when the first inference process joins, because the process group's backend costs
// time and memory. It ends with the publisher, or when there is no backend.

#include <map>
#include <memory>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/weights/channel.h"

namespace troupe {

using PlaneDriver = caf::typed_actor<caf::reacts_to<PlaneReady>, caf::reacts_to<PlaneStep>>;

// The options for both ends of the weight plane. Without threads waiting cannot help, so every time limit is 0.
ChannelOptions channel_options(const RunContext& context);

struct WeightPlaneState {
  static inline const char* name = "weight plane";
  RunContextPtr context;
  PlaneDriver driver;
  std::map<InferenceIndex, InferenceMember> hosts;
  std::shared_ptr<WeightSender> sender;
};

WeightPlaneActor::behavior_type weight_plane(SelfPointer<WeightPlaneActor, WeightPlaneState> self,
                                             RunContextPtr context, std::shared_ptr<const Signature> signature,
                                             PlaneDriver driver);

}  // namespace troupe
