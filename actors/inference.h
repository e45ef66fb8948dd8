#pragma once
// InferenceActor: answers the requests of workers with a Server, each at most once: those for samples, or, in the role
// scoring, those for scores of answers. A request gets no answer if its client has replaced it by a newer one, has
// withdrawn it or is gone. Detached.

#include <map>
#include <memory>
#include <optional>

#include "actors/experience/common/server.h"
#include "actors/messages.h"
#include "actors/parts.h"
#include "actors/run_context.h"
#include "runtime/base/limited_log.h"

namespace troupe {

struct InferencePeers {
  // Of the policy, or of the reference for a scorer. None in a process of its own, where the weights come from a
  // WeightReceiverActor.
  PublisherActor publisher;
  ReplayService replay;
  StatsService stats;
};

class ServerPortToActors;

struct InferenceState {
  static inline const char* name = "inference";
  InferenceState();
  ~InferenceState();

  struct Pending {
    caf::strong_actor_ptr client;
    ClientId id;
    uint64_t request = 0;            // the client's number of it
    Server::Clock::time_point told;  // when the request came, or when the client was last told that it is in progress
  };
  // A client is identified by the address of its actor. The worker number in a request is not reliable: the client
  // chooses it.
  struct Client {
    uint64_t number = 0;              // `worker` in its ids
    std::optional<uint64_t> worker;   // of its last request
    Server::Clock::time_point heard;  // when it sent its last message
  };

  RunContextPtr context;
  Role role = Role::sampling;
  InferenceIndex inference_index = 0;
  InferencePeers peers;
  std::unique_ptr<Server> server;
  std::unique_ptr<ServerPortToActors> port;
  std::optional<PolicyVersion> version;  // in use; nothing until the first weights
  PartAssembler parts;
  uint64_t streams = 0;  // replies sent in parts
  LimitedLog log{"inference"};
  uint64_t next_ticket = 1;
  std::map<uint64_t, Pending> pending;        // by ticket
  std::map<ClientId, uint64_t> tickets;       // of the pending requests
  std::map<caf::actor_addr, Client> clients;  // watched
  uint64_t next_client = 0;
  uint64_t timer = 0;   // number of the message to oneself that is under way; 0 = none
  uint64_t timers = 0;  // such messages sent so far
};

InferenceActor::behavior_type inference_actor(SelfPointer<InferenceActor, InferenceState> self, RunContextPtr context,
                                              Role role, InferenceIndex inference_index, InferencePeers peers);

// Whether an actor of this role needs weights that are sent: a scorer that computes with a reward model alone does not.
bool needs_weights(const RunConfig& config, Role role);

}  // namespace troupe
