#pragma once
// The whole protocol between actors: the messages, by plane in actors/messages/, their registration with CAF, and the
// interface of every actor. A new message that crosses the network takes a struct there, a line of the registration,
// and a line in the interface of the actor that receives it. Replies go to the sender of the request.

#include <cstdint>  // before caf/atom.hpp, which needs it

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/atom.hpp>
#include <caf/replies_to.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/control.h"
#include "actors/messages/experience.h"
#include "actors/messages/inference.h"
#include "actors/messages/local.h"
#include "actors/messages/rank_exchange.h"
#include "actors/messages/ranks.h"
#include "actors/messages/scoring.h"
#include "actors/messages/weights.h"
#include "runtime/caf/measured.h"

// -- atoms

CAF_ADD_ATOM(troupe, troupe, beat_atom, "beat")  // a tick to oneself
CAF_ADD_ATOM(troupe, troupe, next_atom, "next")  // give me the next one, or: tell me from now on
CAF_ADD_ATOM(troupe, troupe, begin_atom, "begin")
CAF_ADD_ATOM(troupe, troupe, wake_atom, "wake")  // a group of a worker has waited long enough
CAF_ADD_ATOM(troupe, troupe, due_atom, "due")    // a deadline passed
CAF_ADD_ATOM(troupe, troupe, idle_atom, "idle")  // deterministic runs: nothing is left to do
CAF_ADD_ATOM(troupe, troupe, save_atom, "save")  // deterministic runs: everyone leave your state with the recorder

// -- registration

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceReply))
CAF_ADD_TYPE_ID(troupe, (troupe::Pause))
CAF_ADD_TYPE_ID(troupe, (troupe::Part))
CAF_ADD_TYPE_ID(troupe, (troupe::WorkerHello))
CAF_ADD_TYPE_ID(troupe, (troupe::Credits))
CAF_ADD_TYPE_ID(troupe, (troupe::RolloutMessage))
CAF_ADD_TYPE_ID(troupe, (troupe::WorkerReport))
CAF_ADD_TYPE_ID(troupe, (troupe::EnvironmentsFailing))
CAF_ADD_TYPE_ID(troupe, (troupe::Applied))
CAF_ADD_TYPE_ID(troupe, (troupe::ReceiverGone))
CAF_ADD_TYPE_ID(troupe, (troupe::Invitation))
CAF_ADD_TYPE_ID(troupe, (troupe::Expelled))
CAF_ADD_TYPE_ID(troupe, (troupe::Serving))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceReport))
CAF_ADD_TYPE_ID(troupe, (troupe::ProcessReport))
CAF_ADD_TYPE_ID(troupe, (troupe::JoinRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::SpawnRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::Stop))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceService))
CAF_ADD_TYPE_ID(troupe, (troupe::ReplayService))
CAF_ADD_TYPE_ID(troupe, (troupe::StatsService))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceMember))
CAF_ADD_TYPE_ID(troupe, (troupe::ServeRequest))
CAF_ADD_TYPE_ID(troupe, (troupe::InferenceReplaced))
CAF_ADD_TYPE_ID(troupe, (troupe::Welcome))
CAF_ADD_TYPE_ID(troupe, (troupe::RankState))
CAF_ADD_TYPE_ID(troupe, (troupe::RankSamples))
CAF_ADD_TYPE_ID(troupe, (troupe::RankUpdate))
CAF_ADD_TYPE_ID(troupe, (troupe::RankSaid))
CAF_ADD_TYPE_ID(troupe, (troupe::RoundSaid))
CAF_ADD_TYPE_ID(troupe, (troupe::RankDone))
CAF_ADD_TYPE_ID(troupe, (troupe::RankCopy))
CAF_ADD_TYPE_ID(troupe, (troupe::GradientsFailed))
CAF_ADD_TYPE_ID(troupe, (troupe::RankSave))
CAF_ADD_TYPE_ID(troupe, (troupe::RankMoments))
CAF_ADD_TYPE_ID(troupe, (troupe::RankPing))
CAF_ADD_TYPE_ID(troupe, (troupe::RankPong))
CAF_ADD_TYPE_ID(troupe, (troupe::RankActor))
CAF_ADD_TYPE_ID(troupe, (troupe::ExchangeService))
CAF_ADD_TYPE_ID(troupe, (troupe::RankReady))
CAF_END_TYPE_ID_BLOCK(troupe)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::WeightsMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::PlaneReady)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::PlaneStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReceiverJoined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReceiverLost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::LaunchedWorkers)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::WorkerGone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::BatchMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::StagedMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::UpdateMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReplayReport)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Evaluation)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::EvaluateMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::EvaluationSlice)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::EvaluationProgress)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::CheckpointMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::CheckpointWritten)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ActorState)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SaveMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SnapshotMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::SamplingFailed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Collapsed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RestartDue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::TrainingEnded)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ScoreRequests)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ScoreReplies)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::WarmupMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RanksMessage)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RankJoined)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ExchangeAttempt)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::RankMisfit)

namespace caf {
class actor_system_config;
}

namespace troupe {

// Makes every message type known to CAF; call before the actor system is built.
void register_messages(caf::actor_system_config& config);

// -- interfaces inside one process

using StatsActor =
    StatsService::extend<caf::reacts_to<ReplayReport>, caf::reacts_to<CheckpointMessage>, caf::reacts_to<Evaluation>,
                         caf::reacts_to<EvaluationProgress>, caf::reacts_to<WarmupMessage>,
                         caf::reacts_to<RanksMessage>, caf::reacts_to<ReceiverGone>, caf::reacts_to<LaunchedWorkers>,
                         caf::reacts_to<beat_atom>, caf::reacts_to<SaveMessage>, caf::reacts_to<Stop>>;
using ReplayActor =
    ReplayService::extend<caf::reacts_to<next_atom>, caf::reacts_to<UpdateMessage>, caf::reacts_to<CheckpointMessage>,
                          caf::reacts_to<ReceiverGone>, caf::reacts_to<WorkerGone>, caf::reacts_to<beat_atom>,
                          caf::reacts_to<due_atom>, caf::reacts_to<idle_atom>, caf::reacts_to<SaveMessage>,
                          caf::reacts_to<Stop>>;
using InferenceActor =
    InferenceService::extend<caf::reacts_to<WeightsMessage>, caf::reacts_to<due_atom, uint64_t>,
                             caf::reacts_to<beat_atom>, caf::reacts_to<SaveMessage>, caf::reacts_to<Stop>>;
using WorkerActor =
    caf::typed_actor<caf::reacts_to<InferenceReply>, caf::reacts_to<Part>, caf::reacts_to<Credits>,
                     caf::reacts_to<ScoreReplies>, caf::reacts_to<begin_atom>,
                     caf::reacts_to<wake_atom, uint32_t, uint32_t>, caf::reacts_to<beat_atom>,
                     caf::reacts_to<SaveMessage>, caf::reacts_to<InferenceReplaced>, caf::reacts_to<Stop>>;
using ScoreReceiver = caf::typed_actor<caf::reacts_to<ScoreReplies>>;
// Scores answers for one worker.
using GraderActor = caf::typed_actor<caf::reacts_to<ScoreRequests>>;
using PrefetcherActor = caf::typed_actor<caf::reacts_to<next_atom>, caf::reacts_to<BatchMessage>, caf::reacts_to<Stop>>;
using TrainerActor =
    caf::typed_actor<caf::reacts_to<begin_atom>, caf::reacts_to<StagedMessage>, caf::reacts_to<Evaluation>,
                     caf::reacts_to<CheckpointWritten>, caf::reacts_to<next_atom>, caf::reacts_to<idle_atom>,
                     caf::reacts_to<RoundSaid>, caf::reacts_to<RankCopy>, caf::reacts_to<RankMisfit>,
                     caf::reacts_to<RankDone>, caf::reacts_to<RankMoments>, caf::reacts_to<RankPong>,
                     caf::reacts_to<GradientsFailed>, caf::reacts_to<Part>, caf::reacts_to<RankJoined>,
                     caf::reacts_to<due_atom>, caf::reacts_to<beat_atom>, caf::reacts_to<Stop>>;
// Joins a run for one rank, in a process of its own.
using RankHostActor = caf::typed_actor<caf::reacts_to<begin_atom>, caf::reacts_to<Stop>>;
// Holds the current weights; whoever sends next_atom gets them now and every later version as it comes, and so does
// whoever joins as a receiver of another process.
using PublisherActor = caf::typed_actor<caf::reacts_to<WeightsMessage>, caf::reacts_to<next_atom>,
                                        caf::reacts_to<ReceiverJoined>, caf::reacts_to<ReceiverGone>,
                                        caf::reacts_to<PlaneReady>, caf::reacts_to<PlaneStep>, caf::reacts_to<Stop>>;
using WeightPlaneActor = caf::typed_actor<caf::reacts_to<ReceiverJoined>, caf::reacts_to<ReceiverGone>,
                                          caf::reacts_to<next_atom>, caf::reacts_to<Stop>>;
using WeightReceiverActor = caf::typed_actor<caf::reacts_to<next_atom>, caf::reacts_to<Stop>>;
using WeightsHolder = caf::typed_actor<caf::reacts_to<WeightsMessage>>;
using EvaluatorActor = caf::typed_actor<caf::reacts_to<EvaluateMessage>, caf::reacts_to<EvaluationSlice>,
                                        caf::reacts_to<beat_atom>, caf::reacts_to<Stop>>;
// Plays one evaluation at a time for the evaluator, a few steps for each next_atom.
using EvaluationActor =
    caf::typed_actor<caf::reacts_to<EvaluateMessage>, caf::reacts_to<next_atom>, caf::reacts_to<Stop>>;
// Writes checkpoints and reports.
using RecorderActor =
    caf::typed_actor<caf::reacts_to<CheckpointMessage>, caf::reacts_to<ActorState>, caf::reacts_to<Evaluation>,
                     caf::reacts_to<SnapshotMessage>, caf::reacts_to<Stop>>;
// Any actor that can be told to stop.
using Stoppable = caf::typed_actor<caf::reacts_to<Stop>>;
// What the supervisor tells a worker, or the host of a worker in another process.
using MemberActor = caf::typed_actor<caf::reacts_to<InferenceReplaced>, caf::reacts_to<Stop>>;
// Joins a run again and again for one worker, in a process of its own.
using WorkerHostActor = MemberActor::extend<caf::reacts_to<begin_atom>>;
// Joins a run again and again for one inference actor, in a process of its own.
using InferenceHostActor = InferenceMember::extend<caf::reacts_to<begin_atom>, caf::reacts_to<Serving>>;
// Starts worker hosts when asked.
using NodeActor = caf::typed_actor<caf::replies_to<SpawnRequest>::with<uint32_t>>;
// Remote processes talk to the join server.
using JoinService =
    caf::typed_actor<caf::replies_to<JoinRequest>::with<Welcome>, caf::replies_to<ServeRequest>::with<void>,
                     caf::replies_to<RankReady>::with<void>, caf::reacts_to<Serving>>;
using SupervisorActor =
    JoinService::extend<caf::reacts_to<ReceiverLost>, caf::reacts_to<SamplingFailed>, caf::reacts_to<Collapsed>,
                        caf::reacts_to<RestartDue>, caf::reacts_to<TrainingEnded>, caf::reacts_to<Evaluation>,
                        caf::reacts_to<CheckpointWritten>, caf::reacts_to<due_atom>, caf::reacts_to<idle_atom>,
                        caf::reacts_to<save_atom>, caf::reacts_to<Stop>>;

}  // namespace troupe
