#pragma once
// The whole protocol between actors: message types, atoms, and every typed interface. Local-only messages carry shared
// pointers and are marked so; everything else can cross the network. Replies go to the sender of the request.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/replies_to.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "models/policy.h"
#include "models/rollout.h"
#include "runtime/caf/inspect.h"
#include "runtime/stats/ledger.h"
#include "runtime/stats/snapshot.h"
#include "runtime/weights/process_group.h"

namespace troupe {

struct SenderStep;
class WeightSender;

// -- inference plane ---------------------------------------------------------------------------------------------------------

// One vector environment asks for actions (rows may be 0) and for values of other observations (final ones, or those after a
// rollout's end).
struct ActRequest {
  uint64_t id = 0;  // chosen by the client, echoed in the reply
  uint64_t worker = 0;
  uint32_t group = 0;
  uint64_t rows = 0;
  Arrays observations;        // each [N, ...]
  Array action_mask;          // [N, M] uint8, or empty
  Array seeds;                // [N] int64
  Arrays value_observations;  // each [F, ...], or empty
};

struct ActReply {
  uint64_t id = 0;
  uint32_t group = 0;
  PolicyVersion version;
  Array actions;       // [N, K, A]
  Array log_probs;     // [N, D]
  Array values;        // [N]
  Array extra_values;  // [F] of value_observations
  Fault fault = Fault::none;
  std::string error;
};

// A client has nothing to ask until its next request.
struct Pause {
  uint64_t worker = 0;
  uint32_t group = 0;
};

// A piece of an ActRequest or a RolloutMessage that is too large for one message (actors/parts.h).
struct Part {
  uint64_t stream = 0;
  uint32_t index = 0;
  uint32_t count = 0;
  Array data;  // uint8
};

// -- experience plane --------------------------------------------------------------------------------------------------------

struct WorkerHello {
  uint64_t worker = 0;
  uint32_t groups = 0;
  uint64_t samples_per_rollout = 0;
};

struct Credits {
  uint32_t count = 0;
};

struct RolloutMessage {
  RolloutPtr rollout;
};

// What a worker says of itself, at intervals: cumulative counts.
struct WorkerReport {
  uint64_t worker = 0;
  uint64_t env_steps = 0;
  std::vector<PartialRollout> partial;  // by group, the older of a group first
  bool last = false;                    // the worker ends with this report and makes no further step
  uint64_t requests = 0;
  uint64_t retries = 0;  // requests asked again after an error or silence
  uint64_t env_failures = 0;
  uint64_t quarantined = 0;  // rows left out now
  uint64_t rss_bytes = 0;
  std::string last_error;
};

// A worker whose environments all failed when they were last stepped, at intervals while that lasts, and a worker that ends with an
// error. `error` is the last one.
struct EnvironmentsFailing {
  uint64_t worker = 0;
  std::string error;
};

// -- weight plane ------------------------------------------------------------------------------------------------------------

// An inference actor serves this version from now on.
struct Applied {
  uint64_t receiver = 0;
  PolicyVersion version;
};

// This inference actor is gone, or no longer counts.
struct ReceiverGone {
  uint64_t receiver = 0;
};

// This worker is gone: its process has joined again, under another number.
struct WorkerGone {
  uint64_t worker = 0;
};

// To the inference process that holds `receiver`: come to this group and receive.
struct Invitation {
  uint64_t receiver = 0;
  Rendezvous rendezvous;
};

// To the inference process that holds `receiver`: it missed a transfer and was set aside; it may join again.
struct Expelled {
  uint64_t receiver = 0;
  std::string why;
};

// From an inference process: it has weights, workers may ask it.
struct Serving {
  uint64_t receiver = 0;
};

struct InferenceReport {
  uint64_t receiver = 0;
  PolicyVersion version;
  uint64_t batches = 0;  // cumulative
  uint64_t rows = 0;
  uint64_t full = 0;
  uint64_t timeout = 0;
  uint64_t all_waiting = 0;
  uint64_t failed = 0;  // batches whose forward threw
  Array batch_rows;     // [n] int32 of the batches since the last report
  Array latency_us;     // [n] float32 from the oldest request's arrival to the reply
};

// -- joining -----------------------------------------------------------------------------------------------------------------

struct JoinRequest {
  uint32_t protocol = 0;
  std::string kind;  // "worker" or "inference"
  std::string host;
  uint64_t pid = 0;
};

// Asks a node to start workers for a run; the reply is the number that was started.
struct SpawnRequest {
  uint32_t protocol = 0;
  uint32_t workers = 0;
  std::string host;  // of the run, as the node reaches it
  uint16_t port = 0;
};

// Messages of the protocol with other numbers are refused at the join.
constexpr uint32_t kProtocolVersion = 4;

struct Stop {
  std::string reason;
};

struct StatusReply {
  std::string state;
  PolicyVersion version;
  uint64_t workers = 0;
};

// -- inside one process ------------------------------------------------------------------------------------------------------

struct WeightsMessage {
  WeightsPtr weights;
};

// The weight plane stands; a receiver was just admitted to it.
struct PlaneReady {
  std::shared_ptr<WeightSender> sender;
};

// Outcome of one sender step.
struct PlaneStep {
  std::shared_ptr<const SenderStep> step;
};

struct BatchMessage {
  std::shared_ptr<const SuperBatch> batch;
};

struct StagedMessage {
  std::shared_ptr<StagedBatch> batch;
  uint64_t env_steps = 0;  // as in SuperBatch
};

struct UpdateMessage {
  PolicyVersion version;  // after the update
  uint64_t index = 0;
  bool applied = false;  // at least one optimizer step was applied
  uint64_t samples = 0;
  double update_seconds = 0;
  double wait_seconds = 0;
  std::shared_ptr<const UpdateReport> report;
};

// Samples of one super-batch by their lag.
using LagCounts = std::map<uint64_t, uint64_t>;

// What replay has counted at one moment. It sends one at every rollout, update, and worker that joins or leaves, and every 500 ms.
struct ReplayReport {
  Ledger ledger;
  uint64_t env_steps = 0;      // of the samples that the ledger counts as produced
  uint64_t workers = 0;        // connected now; once training has ended, those connected when it did
  uint64_t workers_total = 0;  // ever connected
  uint64_t uncounted = 0;      // see ReplayStore::uncounted_at_most()
  double reuse = 0;
  bool training_ended = false;
  // Since the report before:
  std::vector<LagCounts> lags;          // of the super-batches handed out
  std::vector<Episodes> episodes;       // of the rollouts counted
  std::optional<UpdateMessage> update;  // the one that is counted with this report
};

// Totals over all starts of a run, as far as replay does not count them. A checkpoint keeps them.
struct StatsTotals {
  double elapsed_seconds = 0;
  uint64_t episodes = 0;
  uint64_t env_failures = 0;
  uint64_t request_retries = 0;
  uint64_t skipped_steps = 0;
  uint64_t starts = 0;
  std::string window;  // the last stats.window episodes, as bytes
};

struct Evaluation {
  PolicyVersion version;
  uint64_t episodes = 0;
  double return_mean = kUnknown;  // these four are unknown while no episode is over
  double return_std = kUnknown;
  double length_mean = kUnknown;
  double success_rate = kUnknown;  // unknown also where the environment does not report success
  bool last = false;
  std::string error;
};

struct EvaluateMessage {
  WeightsPtr weights;
  bool last = false;
};

// Everything a checkpoint holds of the learner, and where the run stands. The trainer sends it to replay, behind its updates;
// replay adds its counts and passes it on to stats, which adds the totals and passes it on to the recorder.
struct CheckpointMessage {
  std::shared_ptr<const LearnerState> learner;
  PolicyVersion version;
  uint64_t env_steps = 0;
  Ledger ledger;
  uint64_t uncounted = 0;
  StatsTotals totals;
  bool last = false;  // training has ended
};

struct CheckpointWritten {
  PolicyVersion version;
  bool last = false;
  std::string error;  // empty = complete on disk
};

// What an actor of a deterministic run adds to the next checkpoint, by its name.
struct ActorState {
  std::string name;
  std::string bytes;
};

// For the run's sink: a point of the curves, or what people and programs that watch the run are shown.
struct SnapshotMessage {
  std::shared_ptr<const StatsSnapshot> snapshot;
  bool shown = false;
};

// From replay: no environment of the run makes a step any more.
struct SamplingFailed {
  std::string error;
};

// The pause before a worker or an inference actor is started again is over. `ended` is the number of the one it replaces.
struct RestartDue {
  bool inference = false;
  uint64_t ended = 0;
};

// The trainer stopped: it reached a limit, was asked to, or cannot go on (error not empty).
struct TrainingEnded {
  PolicyVersion version;
  std::string reason;
  std::string error;
  WeightsPtr weights;
};

// -- inspection: one line each -----------------------------------------------------------------------------------------------

template <class I> typename I::result_type inspect(I& f, ActRequest& x) {
  return f(caf::meta::type_name("ActRequest"), x.id, x.worker, x.group, x.rows, x.observations, x.action_mask, x.seeds,
           x.value_observations);
}
template <class I> typename I::result_type inspect(I& f, ActReply& x) {
  return f(caf::meta::type_name("ActReply"), x.id, x.group, x.version, x.actions, x.log_probs, x.values, x.extra_values,
           x.fault, x.error);
}
template <class I> typename I::result_type inspect(I& f, Pause& x) {
  return f(caf::meta::type_name("Pause"), x.worker, x.group);
}
template <class I> typename I::result_type inspect(I& f, Part& x) {
  return f(caf::meta::type_name("Part"), x.stream, x.index, x.count, x.data);
}
template <class I> typename I::result_type inspect(I& f, WorkerHello& x) {
  return f(caf::meta::type_name("WorkerHello"), x.worker, x.groups, x.samples_per_rollout);
}
template <class I> typename I::result_type inspect(I& f, Credits& x) {
  return f(caf::meta::type_name("Credits"), x.count);
}
template <class I> typename I::result_type inspect(I& f, Episodes& x) {
  return f(caf::meta::type_name("Episodes"), x.returns, x.lengths, x.success);
}
template <class I> typename I::result_type inspect(I& f, Rollout& x) {
  return f(caf::meta::type_name("Rollout"), x.worker, x.group, x.sequence, x.epoch, x.oldest, x.newest, x.samples,
           x.env_steps, x.observations, x.action_mask, x.actions, x.log_probs, x.executed, x.values, x.next_values,
           x.rewards, x.terminated, x.truncated, x.valid, x.version, x.advantages, x.returns, x.last_observations,
           x.final_observations, x.final_steps, x.task, x.episodes);
}
template <class I> typename I::result_type inspect(I& f, RolloutMessage& x) {
  if constexpr (I::writes_state) {
    auto rollout = std::make_shared<Rollout>();
    if (auto err = f(*rollout)) return err;
    x.rollout = std::move(rollout);
    return caf::error{};
  } else {
    return f(const_cast<Rollout&>(*x.rollout));
  }
}
template <class I> typename I::result_type inspect(I& f, PartialRollout& x) {
  return f(caf::meta::type_name("PartialRollout"), x.group, x.samples, x.env_steps, x.episodes);
}
template <class I> typename I::result_type inspect(I& f, WorkerReport& x) {
  return f(caf::meta::type_name("WorkerReport"), x.worker, x.env_steps, x.partial, x.last, x.requests, x.retries,
           x.env_failures, x.quarantined, x.rss_bytes, x.last_error);
}
template <class I> typename I::result_type inspect(I& f, EnvironmentsFailing& x) {
  return f(caf::meta::type_name("EnvironmentsFailing"), x.worker, x.error);
}
template <class I> typename I::result_type inspect(I& f, Applied& x) {
  return f(caf::meta::type_name("Applied"), x.receiver, x.version);
}
template <class I> typename I::result_type inspect(I& f, ReceiverGone& x) {
  return f(caf::meta::type_name("ReceiverGone"), x.receiver);
}
template <class I> typename I::result_type inspect(I& f, WorkerGone& x) {
  return f(caf::meta::type_name("WorkerGone"), x.worker);
}
template <class I> typename I::result_type inspect(I& f, Invitation& x) {
  return f(caf::meta::type_name("Invitation"), x.receiver, x.rendezvous);
}
template <class I> typename I::result_type inspect(I& f, Expelled& x) {
  return f(caf::meta::type_name("Expelled"), x.receiver, x.why);
}
template <class I> typename I::result_type inspect(I& f, Serving& x) {
  return f(caf::meta::type_name("Serving"), x.receiver);
}
template <class I> typename I::result_type inspect(I& f, InferenceReport& x) {
  return f(caf::meta::type_name("InferenceReport"), x.receiver, x.version, x.batches, x.rows, x.full, x.timeout,
           x.all_waiting, x.failed, x.batch_rows, x.latency_us);
}
template <class I> typename I::result_type inspect(I& f, JoinRequest& x) {
  return f(caf::meta::type_name("JoinRequest"), x.protocol, x.kind, x.host, x.pid);
}
template <class I> typename I::result_type inspect(I& f, SpawnRequest& x) {
  return f(caf::meta::type_name("SpawnRequest"), x.protocol, x.workers, x.host, x.port);
}
template <class I> typename I::result_type inspect(I& f, Stop& x) { return f(caf::meta::type_name("Stop"), x.reason); }
template <class I> typename I::result_type inspect(I& f, StatusReply& x) {
  return f(caf::meta::type_name("StatusReply"), x.state, x.version, x.workers);
}

// -- atoms -------------------------------------------------------------------------------------------------------------------

}  // namespace troupe

CAF_ADD_ATOM(troupe, troupe, beat_atom, "beat")  // a tick to oneself
CAF_ADD_ATOM(troupe, troupe, next_atom, "next")  // give me the next one, or: tell me from now on
CAF_ADD_ATOM(troupe, troupe, begin_atom, "begin")
CAF_ADD_ATOM(troupe, troupe, retry_atom, "retry")
CAF_ADD_ATOM(troupe, troupe, revive_atom, "revive")
CAF_ADD_ATOM(troupe, troupe, due_atom, "due")    // a deadline passed
CAF_ADD_ATOM(troupe, troupe, turn_atom, "turn")  // deterministic runs: nothing is left to do
CAF_ADD_ATOM(troupe, troupe, save_atom, "save")  // deterministic runs: everyone leave your state with the recorder
CAF_ADD_ATOM(troupe, troupe, status_atom, "status")

namespace troupe {

// -- interfaces, as far as they cross the network ----------------------------------------------------------------------------

using ActClient = caf::typed_actor<caf::reacts_to<ActReply>>;
using CreditHolder = caf::typed_actor<caf::reacts_to<Credits>>;
// What workers see of an inference actor, of replay and of stats.
using InferenceDoor = caf::typed_actor<caf::reacts_to<ActRequest>, caf::reacts_to<Part>, caf::reacts_to<Pause>>;
using ReplayDoor =
    caf::typed_actor<caf::reacts_to<WorkerHello>, caf::reacts_to<RolloutMessage>, caf::reacts_to<Part>,
                     caf::reacts_to<WorkerReport>, caf::reacts_to<EnvironmentsFailing>, caf::reacts_to<Applied>>;
using StatsDoor =
    caf::typed_actor<caf::reacts_to<WorkerReport>, caf::reacts_to<InferenceReport>, caf::reacts_to<Applied>>;
// What the run tells an inference process.
using InferenceMember = caf::typed_actor<caf::reacts_to<Invitation>, caf::reacts_to<Expelled>, caf::reacts_to<Stop>>;

// The worker's inference actor ended; this one takes its place.
struct InferenceReplaced {
  InferenceDoor inference;
};

// Deterministic runs: leave your state with the recorder, for the next checkpoint.
struct SaveMessage {
  caf::typed_actor<caf::reacts_to<ActorState>> recorder;
};

// The answer to a join: who you are, what the run is, whom to talk to.
struct Welcome {
  uint64_t member = 0;      // the worker's number, or the receiver's
  std::string config;       // JSON
  InferenceDoor inference;  // for workers; none while no inference actor serves: InferenceReplaced will bring one
  ReplayDoor replay;
  StatsDoor stats;
};

// An inference process has made its policy and asks for weights. Refused when its policy is another one.
struct ServeRequest {
  uint64_t receiver = 0;
  InferenceDoor inference;
  Signature signature;
  std::string address;  // by which it reached the run, numeric
};

// For the publisher: send weights to this one too.
struct ReceiverJoined {
  uint64_t receiver = 0;
  InferenceMember host;
  std::string address;  // by which it reached the run
};

// From the publisher: weights no longer reach this one.
struct ReceiverLost {
  uint64_t receiver = 0;
  std::string why;
};

template <class I> typename I::result_type inspect(I& f, ServeRequest& x) {
  return f(caf::meta::type_name("ServeRequest"), x.receiver, x.inference, x.signature, x.address);
}
template <class I> typename I::result_type inspect(I& f, InferenceReplaced& x) {
  return f(caf::meta::type_name("InferenceReplaced"), x.inference);
}
template <class I> typename I::result_type inspect(I& f, Welcome& x) {
  return f(caf::meta::type_name("Welcome"), x.member, x.config, x.inference, x.replay, x.stats);
}

}  // namespace troupe

// -- registration ------------------------------------------------------------------------------------------------------------

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::ActRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::ActReply))
CAF_ADD_TYPE_ID(troupe, (troupe::Pause))
CAF_ADD_TYPE_ID(troupe, (troupe::Part))
CAF_ADD_TYPE_ID(troupe, (troupe::WorkerHello))
CAF_ADD_TYPE_ID(troupe, (troupe::Credits))
CAF_ADD_TYPE_ID(troupe, (troupe::RolloutMessage))
CAF_ADD_TYPE_ID(troupe, (troupe::WorkerReport))
CAF_ADD_TYPE_ID(troupe, (troupe::EnvironmentsFailing))
CAF_ADD_TYPE_ID(troupe, (troupe::Applied))
CAF_ADD_TYPE_ID(troupe, (troupe::ReceiverGone))
CAF_ADD_TYPE_ID(troupe, (troupe::WorkerGone))
CAF_ADD_TYPE_ID(troupe, (troupe::Invitation))
CAF_ADD_TYPE_ID(troupe, (troupe::Expelled))
CAF_ADD_TYPE_ID(troupe, (troupe::Serving))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceReport))
CAF_ADD_TYPE_ID(troupe, (troupe::JoinRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::SpawnRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::Stop))
CAF_ADD_TYPE_ID(troupe, (troupe::StatusReply))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceDoor))
CAF_ADD_TYPE_ID(troupe, (troupe::ReplayDoor))
CAF_ADD_TYPE_ID(troupe, (troupe::StatsDoor))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceMember))
CAF_ADD_TYPE_ID(troupe, (troupe::ServeRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceReplaced))
CAF_ADD_TYPE_ID(troupe, (troupe::Welcome))
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::WeightsMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::PlaneReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::PlaneStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReceiverJoined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReceiverLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::BatchMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::StagedMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::UpdateMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReplayReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Evaluation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::EvaluateMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::CheckpointMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::CheckpointWritten)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ActorState)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SaveMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SnapshotMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SamplingFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RestartDue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::TrainingEnded)

namespace caf {
class actor_system_config;
}

namespace troupe {

// Makes every message type known to CAF; call before the actor system is built.
void register_messages(caf::actor_system_config& config);

// -- interfaces inside one process -------------------------------------------------------------------------------------------

using StatsActor = StatsDoor::extend<caf::reacts_to<ReplayReport>, caf::reacts_to<CheckpointMessage>,
                                     caf::reacts_to<Evaluation>, caf::reacts_to<ReceiverGone>,
                                     caf::reacts_to<beat_atom>, caf::reacts_to<SaveMessage>, caf::reacts_to<Stop>>;
using ReplayActor =
    ReplayDoor::extend<caf::reacts_to<next_atom>, caf::reacts_to<UpdateMessage>, caf::reacts_to<CheckpointMessage>,
                       caf::reacts_to<ReceiverGone>, caf::reacts_to<WorkerGone>, caf::reacts_to<beat_atom>,
                       caf::reacts_to<due_atom>, caf::reacts_to<SaveMessage>, caf::reacts_to<Stop>>;
using InferenceActor =
    InferenceDoor::extend<caf::reacts_to<WeightsMessage>, caf::reacts_to<due_atom, uint64_t>, caf::reacts_to<beat_atom>,
                          caf::reacts_to<SaveMessage>, caf::reacts_to<Stop>>;
using WorkerActor =
    caf::typed_actor<caf::reacts_to<ActReply>, caf::reacts_to<Credits>, caf::reacts_to<begin_atom>,
                     caf::reacts_to<retry_atom, uint32_t>, caf::reacts_to<revive_atom, uint32_t, uint32_t>,
                     caf::reacts_to<beat_atom>, caf::reacts_to<SaveMessage>, caf::reacts_to<InferenceReplaced>,
                     caf::reacts_to<Stop>>;
using PrefetcherActor = caf::typed_actor<caf::reacts_to<next_atom>, caf::reacts_to<BatchMessage>, caf::reacts_to<Stop>>;
using TrainerActor = caf::typed_actor<caf::reacts_to<begin_atom>, caf::reacts_to<StagedMessage>,
                                      caf::reacts_to<Evaluation>, caf::reacts_to<turn_atom>, caf::reacts_to<Stop>>;
// Holds the current weights; whoever sends next_atom gets them now and every later version as it comes, and so does whoever
// joins as a receiver of another process.
using PublisherActor = caf::typed_actor<caf::reacts_to<WeightsMessage>, caf::reacts_to<next_atom>,
                                        caf::reacts_to<ReceiverJoined>, caf::reacts_to<ReceiverGone>,
                                        caf::reacts_to<PlaneReady>, caf::reacts_to<PlaneStep>, caf::reacts_to<Stop>>;
using WeightPlaneActor = caf::typed_actor<caf::reacts_to<ReceiverJoined>, caf::reacts_to<ReceiverGone>,
                                          caf::reacts_to<next_atom>, caf::reacts_to<Stop>>;
using WeightIntakeActor = caf::typed_actor<caf::reacts_to<next_atom>, caf::reacts_to<Stop>>;
using WeightsHolder = caf::typed_actor<caf::reacts_to<WeightsMessage>>;
using EvaluatorActor =
    caf::typed_actor<caf::reacts_to<EvaluateMessage>, caf::reacts_to<next_atom>, caf::reacts_to<Stop>>;
// Writes checkpoints and reports.
using RecorderActor = caf::typed_actor<caf::reacts_to<CheckpointMessage>, caf::reacts_to<ActorState>,
                                       caf::reacts_to<SnapshotMessage>, caf::reacts_to<Stop>>;
// What the supervisor tells a worker, or the host of a worker in another process.
using MemberActor = caf::typed_actor<caf::reacts_to<InferenceReplaced>, caf::reacts_to<Stop>>;
// Joins a run again and again for one worker, in a process of its own.
using WorkerHostActor = MemberActor::extend<caf::reacts_to<begin_atom>>;
// Joins a run again and again for one inference actor, in a process of its own.
using InferenceHostActor = InferenceMember::extend<caf::reacts_to<begin_atom>, caf::reacts_to<Serving>>;
// Starts worker hosts when asked.
using NodeActor = caf::typed_actor<caf::replies_to<SpawnRequest>::with<uint32_t>>;
// Remote processes talk to the gate.
using GateActor =
    caf::typed_actor<caf::replies_to<JoinRequest>::with<Welcome>, caf::replies_to<ServeRequest>::with<void>,
                     caf::reacts_to<Serving>, caf::replies_to<status_atom>::with<StatusReply>>;
using SupervisorActor =
    GateActor::extend<caf::reacts_to<ReceiverLost>, caf::reacts_to<SamplingFailed>, caf::reacts_to<RestartDue>,
                      caf::reacts_to<TrainingEnded>, caf::reacts_to<Evaluation>, caf::reacts_to<CheckpointWritten>,
                      caf::reacts_to<due_atom>, caf::reacts_to<turn_atom>, caf::reacts_to<save_atom>,
                      caf::reacts_to<Stop>>;

}  // namespace troupe
