#pragma once
// The moments of the optimizer where each rank has a slice of them (trainer.zero): rank 0 gathers them to save them, to
// divide them anew, and when a rank is lost. Functions of the trainer's thread.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "actors/trainer_update.h"

namespace troupe {

// Between two updates: calls `then` when all moments are here, in the order of these calls. No update begins before
// that.
void with_moments(TrainerSelf self, std::function<void()> then);
// As Learner::save(), with those moments; inside `then` alone.
LearnerState whole_state(const TrainerState& st);
void on_rank_moments(TrainerSelf self, const RankMoments& moments);
// How many ranks take part in an update that begins now.
size_t ranks_now(const TrainerState& st);
// At the beginning of an attempt: ranks without this rank's state get it. Those are new ones, and all where the moments
// are divided anew.
void bring_up(TrainerSelf self);
// A rank that had a slice was lost, and is no longer among the ranks: takes back the update under way, gathers the
// moments from the other ranks, and goes on from there. Throws std::runtime_error when the run has to end.
void recover_moments(TrainerSelf self, const std::string& lost);

// Sends rank 1, 2, ... a message, in parts if it is large.
template <class Self, class Message>
void tell(Self self, size_t rank, Message message) {
  auto& st = self->state;
  send_in_parts(self, st.ranks[rank - 1].actor, std::move(message), st.context->config.network.chunk_bytes, st.streams);
}

}  // namespace troupe
