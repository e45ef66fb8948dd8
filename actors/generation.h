#pragma once
// The inference actor of a token run: holds a Generator and computes one step of all answers in progress per message to
// itself, so that requests and weights are taken between steps. New weights are used from the next step on; answers in
// progress keep the keys and values that older weights computed, and every token has the version that sampled it.
// Detached.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "actors/experience/answers/generation_scheduler.h"
#include "actors/inference.h"
#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/run_context.h"
#include "runtime/base/limited_log.h"

namespace troupe {

struct GenerationState {
  static inline const char* name = "generation";

  struct Pending {
    caf::strong_actor_ptr client;
    InferenceRequest request;
  };

  RunContextPtr context;
  InferenceIndex inference_index = 0;
  InferencePeers peers;
  std::unique_ptr<Generator> generator;
  std::optional<GenerationScheduler> scheduler;
  std::optional<PolicyVersion> version;  // nothing until the first weights
  PartAssembler parts;
  LimitedLog log{"inference"};
  uint64_t streams = 0;
  uint64_t next_ticket = 1;
  std::map<uint64_t, Pending> pending;  // by ticket
  std::set<caf::actor_addr> clients;    // monitored
  bool stepping = false;                // a message to oneself is under way
  InferenceReport report;               // cumulative counts
  std::vector<int32_t> batch_rows;      // since the last report
  std::vector<float> latency_us;
};

InferenceActor::behavior_type generation_actor(SelfPointer<InferenceActor, GenerationState> self, RunContextPtr context,
                                               InferenceIndex inference_index, InferencePeers peers);

}  // namespace troupe
