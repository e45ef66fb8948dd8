#pragma once
// Control plane: joining, starting and stopping, and the interfaces by which processes reach each other's actors. These
// messages cross the network.

#include <cstdint>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/experience.h"
#include "actors/messages/inference.h"
#include "actors/messages/process_report.h"
#include "actors/messages/weights.h"
#include "runtime/caf/inspect.h"
#include "runtime/weights/inference_index.h"
#include "runtime/weights/weights.h"

namespace troupe {

// A process with another number is refused when it joins a run or sends a SpawnRequest.
constexpr uint32_t kProtocolVersion = 20;

struct Stop {
  std::string reason;

  template <class I> friend typename I::result_type inspect(I& f, Stop& x) {
    return f(caf::meta::type_name("Stop"), x.reason);
  }
};

using InferenceClient = caf::typed_actor<caf::reacts_to<InferenceReply>, caf::reacts_to<Part>>;
using CreditHolder = caf::typed_actor<caf::reacts_to<Credits>>;
// The interfaces of an inference actor, of replay and of stats for workers.
using InferenceService =
    caf::typed_actor<caf::reacts_to<InferenceRequest>, caf::reacts_to<Part>, caf::reacts_to<Pause>>;
using ReplayService =
    caf::typed_actor<caf::reacts_to<WorkerHello>, caf::reacts_to<RolloutMessage>, caf::reacts_to<Part>,
                     caf::reacts_to<WorkerReport>, caf::reacts_to<EnvironmentsFailing>, caf::reacts_to<Applied>>;
using StatsService = caf::typed_actor<caf::reacts_to<WorkerReport>, caf::reacts_to<InferenceReport>,
                                      caf::reacts_to<Applied>, caf::reacts_to<ProcessReport>>;
// The interface of an inference process for the run.
using InferenceMember = caf::typed_actor<caf::reacts_to<Invitation>, caf::reacts_to<Expelled>, caf::reacts_to<Stop>>;

struct JoinRequest {
  uint32_t protocol = 0;
  std::string kind;  // "worker", "inference", "scorer" or "rank"
  std::string host;
  uint64_t pid = 0;
  std::string run = {};     // the identity of the run that it was a member of; empty if it was of none
  std::string config = {};  // JSON, of a rank whose command line has one: that of the run has to be the same

  template <class I> friend typename I::result_type inspect(I& f, JoinRequest& x) {
    return f(caf::meta::type_name("JoinRequest"), x.protocol, x.kind, x.host, x.pid, x.run, x.config);
  }
};

// The answer to a JoinRequest: the member's number, the config of the run, and the actors to send to.
struct Welcome {
  uint64_t member = 0;         // the worker's number, or the inference index
  std::string config;          // JSON
  InferenceService inference;  // for workers; null while no inference actor serves: InferenceReplaced follows
  ReplayService replay;
  StatsService stats;
  uint32_t epoch = 0;            // of the start of the run
  std::string run = {};          // its identity, the same at every start
  SpecFields spec = {};          // for workers: what the run is made of, as in a WorkerHello
  InferenceService scorer = {};  // for workers, as `inference`

  template <class I> friend typename I::result_type inspect(I& f, Welcome& x) {
    return f(caf::meta::type_name("Welcome"), x.member, x.config, x.inference, x.replay, x.stats, x.epoch, x.run,
             x.spec, x.scorer);
  }
};

// To a worker: use this inference actor from now on. The former one ended, or had more workers than this one.
struct InferenceReplaced {
  InferenceService inference;
  Role role = Role::sampling;  // in which

  template <class I> friend typename I::result_type inspect(I& f, InferenceReplaced& x) {
    return f(caf::meta::type_name("InferenceReplaced"), x.inference, x.role);
  }
};

// An inference process has made its policy and asks for weights. Refused if its model, its environments or its task
// differ from the run's.
struct ServeRequest {
  InferenceIndex inference_index = 0;
  InferenceService inference;
  Signature signature;
  std::string address;   // numeric address of the run at which the process reached it
  SpecFields spec = {};  // as in a WorkerHello
  Role role = Role::sampling;

  template <class I> friend typename I::result_type inspect(I& f, ServeRequest& x) {
    return f(caf::meta::type_name("ServeRequest"), x.inference_index, x.inference, x.signature, x.address, x.spec,
             x.role);
  }
};

// Asks a node to start workers for a run; the reply is the number that was started.
struct SpawnRequest {
  uint32_t protocol = 0;
  uint32_t workers = 0;
  std::string host;  // of the run, as the node reaches it
  uint16_t port = 0;

  template <class I> friend typename I::result_type inspect(I& f, SpawnRequest& x) {
    return f(caf::meta::type_name("SpawnRequest"), x.protocol, x.workers, x.host, x.port);
  }
};

}  // namespace troupe
