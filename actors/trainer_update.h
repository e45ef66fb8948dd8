#pragma once
// The update of a trainer, rank 0 of its run. With one rank it is computed in one go. With several, each rank computes
// some shards: rank 0 sends the others theirs, adds up what all say in a round, and sends them the result. Functions of
// the trainer's thread.

#include <cstdint>
#include <memory>

#include "actors/trainer.h"
#include "runtime/caf/system.h"

namespace troupe {

using TrainerSelf = SelfPointer<TrainerActor, TrainerState>;

// Starts the other ranks of this process.
void start_ranks(TrainerSelf self);
// `progress`: of the run, for the schedules. update_ended() follows.
void begin_update(TrainerSelf self, const StagedMessage& message, double progress);
void on_rank_said(TrainerSelf self, const RankSaid& said);
void on_rank_done(TrainerSelf self, const RankDone& done);

// Of skipped steps, and of updates without samples: once of each.
void warn_of(TrainerSelf self, const UpdateReport& report, uint64_t samples);

// In trainer.cpp: the update is complete on all ranks.
void update_ended(TrainerSelf self, TrainerUpdate update);

}  // namespace troupe
