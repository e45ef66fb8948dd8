#pragma once
// How a trainer, rank 0 of its run, notices that a rank does not answer although its connection lives: its trainer
// hangs, or what it says arrives nowhere. An update waits for all ranks, so such a rank is lost. Functions of the
// trainer's thread.

#include "actors/trainer_update.h"

namespace troupe {

// Asks every rank, and loses those that have not answered for too long. Calls itself again later.
void watch_ranks(TrainerSelf self);
void on_rank_pong(TrainerSelf self);

}  // namespace troupe
