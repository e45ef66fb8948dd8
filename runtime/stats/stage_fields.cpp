// The part of snapshot_fields() with the seconds of stages, and the times of actors.

#include <array>

#include "runtime/stats/field_access.h"

namespace troupe {
namespace {

template <double UpdateStages::* member>
constexpr FieldAccess of_update{
    [](const StatsSnapshot& s) { return s.stages.update ? FigureJson((*s.stages.update).*member) : FigureJson(); },
    [](StatsSnapshot& s, const FigureJson& value) {
      if (!value.is_number()) return;
      if (!s.stages.update) s.stages.update.emplace();
      read_figure(value, (*s.stages.update).*member);
    }};

constexpr const char* kStages = "Stages";
constexpr const char* kActors = "Actors";
constexpr const char* kActorsTimed = "while the run has actors, not in deterministic runs";
constexpr const char* kJoinedTimed = "while processes that have joined the run report, not in deterministic runs";

constexpr std::array kStageFields = {
    SnapshotField{kStages, "stages.draw", "update_stage_seconds{stage=draw}", "s", kTrainedTimed,
                  "mean over the updates that ended in the last 10 s, or of the newest one: the replay buffer drew the "
                  "super-batch, while the update before ran",
                  of_update<&UpdateStages::draw>},
    SnapshotField{
        kStages, "stages.collate", "update_stage_seconds{stage=collate}", "s", kTrainedTimed,
        "mean over the same updates: the prefetcher gathered the samples into contiguous arrays, while the update "
        "before ran",
        of_update<&UpdateStages::collate>},
    SnapshotField{kStages, "stages.copy", "update_stage_seconds{stage=copy}", "s", kTrainedTimed,
                  "mean over the same updates: the prefetcher copied the samples to the trainer's GPU, or started to; "
                  "0 on the CPU",
                  of_update<&UpdateStages::copy>},
    SnapshotField{
        kStages, "stages.prepare", "update_stage_seconds{stage=prepare}", "s", kTrainedTimed,
        "mean over the same updates: the trainer normalised inputs, computed advantages and targets, and drew "
        "minibatches",
        of_update<&UpdateStages::prepare>},
    SnapshotField{
        kStages, "stages.forward", "update_stage_seconds{stage=forward}", "s", kTrainedTimed,
        "mean over the same updates: forward passes and losses of all epochs; on a GPU, until their work was submitted",
        of_update<&UpdateStages::forward>},
    SnapshotField{kStages, "stages.backward", "update_stage_seconds{stage=backward}", "s", kTrainedTimed,
                  "mean over the same updates: backward passes, with both passes of a separate critic; on a GPU, until "
                  "their work "
                  "was submitted",
                  of_update<&UpdateStages::backward>},
    SnapshotField{
        kStages, "stages.optimizer", "update_stage_seconds{stage=optimizer}", "s", kTrainedTimed,
        "mean over the same updates: optimizer steps, with the sums of gradients; on a GPU, with the wait for the "
        "work before",
        of_update<&UpdateStages::optimizer>},
    SnapshotField{
        kStages, "stages.exchange", "update_stage_seconds{stage=exchange}", "s", kTrainedTimed,
        "mean over the same updates: the trainer sent samples and gradients to other ranks and waited for theirs; 0 "
        "with one rank",
        of_update<&UpdateStages::exchange>},
    SnapshotField{kStages, "stages.publish", "update_stage_seconds{stage=publish}", "s", kTrainedTimed,
                  "mean over the same updates: the rest of the update, its metrics and the snapshot of the new weights",
                  of_update<&UpdateStages::publish>},
    SnapshotField{kStages, "stages.transfer", "weights_transfer_mean_seconds", "s",
                  "after the first update whose weights are in use, not in deterministic runs",
                  "from the end of an update until an inference actor had its weights in use, mean over all times that "
                  "an actor did so in the last 10 s, or the newest time; neither versions that an actor leaves out "
                  "count, nor the first weights of an actor, which may be older than the actor",
                  of_part<&StatsSnapshot::stages, &StageFigures::transfer>},
    SnapshotField{
        kStages, "stages.env_step", "env_step_mean_seconds", "s",
        "not in token runs; while workers make steps, not in deterministic runs",
        "mean of the last 10 s: a step of an environment, which is that of all rows of a group divided by their number",
        of_part<&StatsSnapshot::stages, &StageFigures::env_step>},
    SnapshotField{kStages, "stages.answer", "answer_mean_seconds", "s",
                  "token runs, while answers arrive, not in deterministic runs",
                  "mean of the last 10 s: from a worker's request for the answers to a prompt, or for their next turn, "
                  "to the reply",
                  of_part<&StatsSnapshot::stages, &StageFigures::answer>},
    SnapshotField{kActors, "actors.busy", "actor_busy_ratio{actor=*}", "0 to 1, by kind of actor", kActorsTimed,
                  "share of the last 10 s that an actor spent in handlers, on average, with the handler that runs now",
                  of_optional<&StatsSnapshot::actors, &ActorTimes::busy>, shown("busy")},
    SnapshotField{kActors, "actors.blocked", "actor_blocked_ratio{actor=*}", "0 to 1, by kind of actor", kActorsTimed,
                  "part of `actors.busy` in which a handler waited and computed nothing: for another process (an "
                  "environment or a verifier), a GPU, the other members of a transfer of weights, or the disk",
                  of_optional<&StatsSnapshot::actors, &ActorTimes::blocked>, shown("blocked")},
    SnapshotField{kActors, "actors.waiting", "actor_waiting_ratio{actor=*}", "0 to 1, by kind of actor", kActorsTimed,
                  "the rest of the time: an actor waited for messages, and its handlers did not run",
                  of_optional<&StatsSnapshot::actors, &ActorTimes::waiting>, shown("waiting")},
    SnapshotField{
        kActors, "actors.oldest_seconds", "actor_oldest_message_seconds{actor=*}", "s, by kind of actor", kActorsTimed,
        "time that a message waits until its turn comes: that of a probe once a second, or of one whose turn "
        "has not come; of several actors of a kind, the longest. No actor is late where this is a few milliseconds, "
        "or no more than one of its turns takes: for the trainer, an update",
        of_optional<&StatsSnapshot::actors, &ActorTimes::oldest_seconds>, shown("oldest message", Better::down)},
    SnapshotField{
        kActors, "joined_actors.busy", "joined_actor_busy_ratio{actor=*}", "0 to 1, by kind of actor", kJoinedTimed,
        "`actors.busy` of the actors in processes that have joined the run, of the time between their reports",
        of_optional<&StatsSnapshot::joined_actors, &ActorTimes::busy>, shown("busy elsewhere")},
    SnapshotField{kActors, "joined_actors.blocked", "joined_actor_blocked_ratio{actor=*}", "0 to 1, by kind of actor",
                  kJoinedTimed, "`actors.blocked` of the same",
                  of_optional<&StatsSnapshot::joined_actors, &ActorTimes::blocked>, shown("blocked elsewhere")},
    SnapshotField{kActors, "joined_actors.waiting", "joined_actor_waiting_ratio{actor=*}", "0 to 1, by kind of actor",
                  kJoinedTimed, "`actors.waiting` of the same",
                  of_optional<&StatsSnapshot::joined_actors, &ActorTimes::waiting>, shown("waiting elsewhere")},
    SnapshotField{kActors, "joined_actors.oldest_seconds", "joined_actor_oldest_message_seconds{actor=*}",
                  "s, by kind of actor", kJoinedTimed,
                  "`actors.oldest_seconds` of the same, in their newest reports, of all processes the longest",
                  of_optional<&StatsSnapshot::joined_actors, &ActorTimes::oldest_seconds>,
                  shown("oldest message elsewhere", Better::down)},
};

}  // namespace

std::span<const SnapshotField> stage_fields() { return kStageFields; }

}  // namespace troupe
