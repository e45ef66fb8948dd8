#pragma once
// Publisher: owns the weight plane of the trainer's process. Holds the current weights; every receiver of this process
// that asks gets them at once and every later version as it comes, so a late joiner is served first what is current.
// Receivers of other processes are brought up to date by a WeightSender, whose steps block and are made by the weight
// plane actor, one at a time. Event-based; the trainer hands weights on and never waits.

#include <memory>
#include <set>
#include <vector>

#include "actors/messages.h"
#include "actors/run_context.h"

namespace troupe {

// What it needs for receivers of other processes; none of it where there are none.
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
  WeightPlaneActor plane;                // from the first of them on
  std::shared_ptr<WeightSender> sender;  // the plane's, once it stands
  bool stepping = false;                 // the plane makes a step
  int failures = 0;                      // in a row that nobody in particular was to blame for
};

PublisherActor::behavior_type publisher(PublisherActor::stateful_pointer<PublisherState> self,
                                        PublisherDependencies dependencies);

}  // namespace troupe
