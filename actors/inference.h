#pragma once
// InferenceActor: holds a policy replica, batches requests by size or deadline, and answers each request at most once.
// A request gets no answer if its client has replaced it by a newer one or is gone. When the forward of a batch fails,
// each of its requests is computed alone, and one that fails again is answered with the text of the error. New weights
// are loaded between batches. Detached.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/request_batcher.h"
#include "actors/run_context.h"
#include "runtime/base/limited_log.h"

namespace troupe {

struct InferencePeers {
  PublisherActor publisher;  // none in a process of its own, where the weights come from a WeightReceiverActor
  ReplayService replay;
  StatsService stats;
};

struct InferenceState {
  static inline const char* name = "inference";

  struct Pending {
    caf::strong_actor_ptr client;
    RequestBatcher::ClientId id;
    InferenceRequest request;
  };
  // A client is identified by the address of its actor. The worker number in a request is not reliable: the client
  // chooses it.
  struct Client {
    uint64_t number = 0;                      // `worker` in the batcher's ids
    std::optional<uint64_t> worker;           // of its last request
    RequestBatcher::Clock::time_point heard;  // when it sent its last message
  };

  RunContextPtr context;
  InferenceIndex inference_index = 0;
  InferencePeers peers;
  std::unique_ptr<Policy> policy;
  std::optional<PolicyVersion> version;  // nothing until the first weights
  std::optional<RequestBatcher> batcher;
  PartAssembler parts;
  uint64_t streams = 0;  // replies sent in parts
  LimitedLog log{"inference"};
  uint64_t next_ticket = 1;
  std::map<uint64_t, Pending> pending;        // by ticket
  std::map<caf::actor_addr, Client> clients;  // watched
  uint64_t next_client = 0;
  uint64_t timer = 0;               // number of the pending deadline message; 0 = none
  uint64_t timers = 0;              // deadline messages sent so far
  InferenceReport report;           // cumulative counts
  std::vector<int32_t> batch_rows;  // since the last report
  std::vector<float> latency_us;
};

InferenceActor::behavior_type inference_actor(SelfPointer<InferenceActor, InferenceState> self, RunContextPtr context,
                                              InferenceIndex inference_index, InferencePeers peers);

}  // namespace troupe
