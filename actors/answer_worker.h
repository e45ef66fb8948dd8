#pragma once
// AnswerWorker: the worker of a token run, the actor around AnswerCore. It has the interface of a rollout worker, and
// shares threads with the other workers of its process. Needs no LibTorch. It ends with Fault::peer_gone when the
// replay buffer is gone.

#include <memory>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "actors/worker.h"

namespace troupe {

class AnswerCore;
class AnswerPortToActors;

struct AnswerWorkerState {
  static inline const char* name = "answer worker";
  AnswerWorkerState();
  ~AnswerWorkerState();

  WorkerPeers peers;
  WorkerMemory memory;
  std::unique_ptr<AnswerPortToActors> port;
  std::unique_ptr<AnswerCore> core;
  PartAssembler parts;  // of replies of `peers.inference`
};

WorkerActor::behavior_type answer_worker(SelfPointer<WorkerActor, AnswerWorkerState> self, RunContextPtr context,
                                         uint64_t worker, WorkerPeers peers);

}  // namespace troupe
