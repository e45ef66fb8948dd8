#pragma once
// How a trainer, rank 0 of its run, notices that an update will never be complete although all connections live. A rank
// may not answer, because its trainer hangs or what it says arrives nowhere, or may not have got what was sent to it:
// such a rank is lost. Or all may wait for something that has been lost: then the update begins again. Functions of the
// trainer's thread.

#include "actors/trainer_update.h"

namespace troupe {

// For how long a rank may not answer, or nothing may come, before that. A rank that computes, loads a state or gets
// samples answers afterwards: until an update has been complete nobody knows how long that takes.
std::chrono::seconds patience(const TrainerState& st);
// Asks every rank, and acts on what has not come for too long. Calls itself again later.
void watch_ranks(TrainerSelf self);
void on_rank_pong(TrainerSelf self, const RankPong& pong);
// A rank has said something that an update or a checkpoint needs.
void note_heard(TrainerState& st);

}  // namespace troupe
