#pragma once
// InferenceActor: holds a policy replica, batches requests by size or deadline, and answers each request at most once.
// There is no answer to a request that its client has replaced by a newer one, or whose client is gone. Detached.
// When a forward fails, each request of the batch is computed alone, and one that fails alone is answered with the
// error text; the actor goes on. New weights are swapped in between batches.

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
    ActRequest request;
  };
  // Who sends requests is told apart by its address: a worker's number is what it says itself.
  struct Client {
    uint64_t number = 0;                      // in the batcher's ids
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
  uint64_t timer = 0;  // generation of the one deadline message under way; 0 = none
  uint64_t timers = 0;
  InferenceReport report;           // cumulative counts
  std::vector<int32_t> batch_rows;  // since the last report
  std::vector<float> latency_us;
};

InferenceActor::behavior_type inference_actor(InferenceActor::stateful_pointer<InferenceState> self,
                                              RunContextPtr context, InferenceIndex inference_index,
                                              InferencePeers peers);

}  // namespace troupe
