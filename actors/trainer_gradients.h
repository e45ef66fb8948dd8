#pragma once
// The gradients of the ranks of a run where they travel over a process group (network.backend): rank 0 says which
// group, and begins an attempt with another one after a failure. Functions of the trainer's thread.

#include <string>
#include <vector>

#include "actors/trainer_update.h"

namespace troupe {

// A rank process has joined, which reaches this one at that address.
void meet_ranks_at(TrainerSelf self, const std::string& address);
// At the beginning of an attempt: the group of its ranks, or none where gradients go to the exchange. Its rank is that
// of rank 0.
std::vector<Rendezvous> begin_gradients(TrainerSelf self);
// The update under way cannot be completed as it is. It begins again, unless that has happened too often. Throws
// std::runtime_error, which ends the run, then, and where the moments before it are lost.
void update_failed(TrainerSelf self, const std::string& what);
void on_gradients_failed(TrainerSelf self, const GradientsFailed& failed);

}  // namespace troupe
