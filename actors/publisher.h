#pragma once
// Publisher: owns the weight plane of the trainer's process. Holds the current weights; every receiver that asks gets them at
// once and every later version as it comes, so a late joiner is served first what is current. Event-based; the trainer hands
// weights on and never waits.

#include <vector>

#include "actors/messages.h"

namespace troupe {

struct PublisherState {
  static inline const char* name = "publisher";
  WeightsPtr current;
  std::vector<WeightsHolder> receivers;
};

PublisherActor::behavior_type publisher(PublisherActor::stateful_pointer<PublisherState> self);

}  // namespace troupe
