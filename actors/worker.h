#pragma once
// RolloutWorker: the actor around WorkerCore. Its environments may block, so in the trainer's process it has a thread of its own
// (where Wiring::threads is set); in other processes it runs on CAF's scheduler. Needs no LibTorch. It ends with Fault::peer_gone when replay or its inference actor's
// node is gone and nobody replaces it.

#include "actors/messages.h"
#include "actors/wiring.h"

namespace troupe {

struct WorkerPeers {
  InferenceDoor inference;  // may be none: InferenceReplaced brings one
  ReplayDoor replay;
  StatsDoor stats;
};

class WorkerPortToActors;
class WorkerCore;

struct WorkerState {
  static inline const char* name = "worker";
  WorkerState();
  ~WorkerState();

  WorkerPeers peers;
  std::unique_ptr<WorkerPortToActors> port;
  std::unique_ptr<WorkerCore> core;
};

WorkerActor::behavior_type rollout_worker(WorkerActor::stateful_pointer<WorkerState> self, WiringPtr wiring,
                                          uint64_t worker, WorkerPeers peers);

}  // namespace troupe
