#pragma once
// The update of a trainer, rank 0 of its run. With one rank it is computed in one go. With several, each rank computes
// some shards: rank 0 sends the others theirs, and what all say in a round goes through the exchange
// (actors/rank_exchange.h). Functions of the trainer's thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/trainer.h"
#include "runtime/caf/system.h"

namespace troupe {

using TrainerSelf = SelfPointer<TrainerActor, TrainerState>;

// Starts the other ranks, if they are of this process.
void start_ranks(TrainerSelf self);
// Whether training cannot begin yet because ranks have not joined.
bool waits_for_ranks(const TrainerState& st);
void on_rank_joined(TrainerSelf self, const RankJoined& joined);
// Ends the run if ranks have not joined in time.
void on_ranks_due(TrainerSelf self);
// `progress`: of the run, for the schedules. update_ended() follows.
void begin_update(TrainerSelf self, const StagedMessage& message, double progress);
void on_round(TrainerSelf self, const RoundSaid& said);
void on_rank_misfit(TrainerSelf self, const RankMisfit& misfit);
void on_rank_done(TrainerSelf self, const RankDone& done);
void on_rank_part(TrainerSelf self, const Part& part);
void on_rank_copy(TrainerSelf self, const RankCopy& copy);
// Goes on without a rank, if it is one and not lost by now. Its process is told to give it up.
void lose_rank(TrainerSelf self, const caf::actor_addr& rank, const std::string& why);

// The update under way begins again, from the state before it, which is there unless the moments are divided, with the
// ranks that are left.
void try_again(TrainerSelf self);
// Begins the update under way again: takes its samples, the ranks and the state that are there now.
void begin_again(TrainerSelf self);

// Of skipped steps, and of updates without samples: once of each.
void warn_of(TrainerSelf self, const UpdateReport& report, uint64_t samples);

// In trainer.cpp: the update is complete on all ranks.
void update_ended(TrainerSelf self, TrainerUpdate update);
// Likewise: asks for the next super-batch, unless something holds training.
void ask(TrainerSelf self);
// Likewise.
void request_end(TrainerSelf self, const std::string& reason, const std::string& error = {});

}  // namespace troupe
