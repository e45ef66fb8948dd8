#pragma once
// Publisher: owns the weight plane of the trainer's process. Holds the current weights. A receiver in this process that
// asks gets them at once, and then every later version.
// Receivers in other processes are updated by a WeightSender, whose blocking steps the weight plane actor runs one at a
// time. Event-based; the trainer publishes weights and never waits.

#include <memory>
#include <set>
#include <vector>

#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

// Dependencies for receivers in other processes; all empty if there are none.
struct PublisherDependencies {
  RunContextPtr context;
  std::shared_ptr<const Signature> signature;
  caf::typed_actor<caf::reacts_to<ReceiverLost>> supervisor;
};

struct PublisherState {
  static inline const char* name = "publisher";
  ~PublisherState();

  PublisherDependencies dependencies;
  WeightsPtr current;
  std::vector<WeightsHolder> receivers;  // of this process
  std::set<InferenceIndex> remote;       // receivers of other processes
  WeightPlaneActor plane;                // null until the first remote receiver joins
  std::shared_ptr<WeightSender> sender;  // the weight plane's; null until it is ready
  bool stepping = false;                 // the weight plane is running a step
  int failures = 0;                      // consecutive failed transfers that no single receiver caused
};

PublisherActor::behavior_type publisher(SelfPointer<PublisherActor, PublisherState> self,
                                        PublisherDependencies dependencies);

}  // namespace troupe
