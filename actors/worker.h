#pragma once
// Worker: the actor around a Sampler. Detached in the trainer's process; in a process of its own only when its
// environment blocks (EnvSpec::blocks) or a verifier scores its answers, else it shares threads with the others there.
// Needs no LibTorch. It ends with Fault::peer_gone when the replay buffer is gone.

#include <array>
#include <vector>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/run_context.h"
#include "actors/worker_memory.h"

namespace troupe {

struct WorkerPeers {
  InferenceService inference;  // may be none: InferenceReplaced brings one
  ReplayService replay;
  StatsService stats;
  uint32_t epoch = 0;            // of the start of the run, see Sampler::begin()
  InferenceService scorer = {};  // as `inference`, in the role scoring

  InferenceService& of(Role role) { return role == Role::sampling ? inference : scorer; }
};

class SamplerPortToActors;
class Sampler;

struct WorkerState {
  static inline const char* name = "worker";
  WorkerState();
  ~WorkerState();

  WorkerPeers peers;
  WorkerMemory memory;
  std::unique_ptr<SamplerPortToActors> port;
  std::vector<GraderActor> graders;  // asked in turn; none if the sampler needs no scores, and in a deterministic run
  std::unique_ptr<Sampler> sampler;
  PartAssembler parts;  // of replies of `peers.inference` and `peers.scorer`
  uint64_t failures_logged = 0;
  std::chrono::steady_clock::time_point next_failure_line = {};
  bool silence_logged = false;            // that inference does not answer
  std::array<bool, kRoles> refused = {};  // by role: the last answer said that the request does not fit the run
  std::chrono::steady_clock::time_point next_silence_line = {}, next_forward_line = {}, next_score_line = {};
};

WorkerActor::behavior_type worker_actor(SelfPointer<WorkerActor, WorkerState> self, RunContextPtr context,
                                        uint64_t worker, WorkerPeers peers);

}  // namespace troupe
