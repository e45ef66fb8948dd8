#include "actors/trainer_watch.h"

#include <algorithm>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace troupe {

namespace {

constexpr std::chrono::seconds kBetween{10};

// How often a rank is asked before it is lost. One that computes, loads a state or gets samples answers afterwards:
// until an update has been complete nobody knows how long that takes.
uint64_t patience(const TrainerState& st) {
  constexpr std::chrono::seconds kLeast{120}, kFirst{1800};
  constexpr int kTransfers = 4, kUpdates = 5;
  std::chrono::nanoseconds time = kLeast;
  if (!st.usual_update) time = kFirst;
  time = std::max<std::chrono::nanoseconds>(time, kTransfers * st.context->config.network.transfer_timeout);
  time = std::max<std::chrono::nanoseconds>(time, kUpdates * st.usual_update.value_or(TrainerState::Clock::duration{}));
  return static_cast<uint64_t>(time / kBetween);
}

}  // namespace

// Counts questions, not time: after a pause of this process the answers are in its mailbox.
void watch_ranks(TrainerSelf self) {
  auto& st = self->state;
  if (!st.learner) return;
  std::vector<caf::actor_addr> silent;
  for (TrainerState::Rank& rank : st.ranks) {
    if (rank.unanswered == patience(st)) silent.push_back(rank.actor.address());
    if (rank.unanswered++ == 0) self->send(rank.actor, RankPing{});
  }
  for (const caf::actor_addr& rank : silent)
    lose_rank(self, rank, "it has answered nothing for " + std::to_string(patience(st) * kBetween.count()) + " s");
  self->delayed_send(self, kBetween, beat_atom_v);
}

void on_rank_pong(TrainerSelf self) {
  const auto& sender = self->current_sender();
  if (!sender) return;
  for (TrainerState::Rank& rank : self->state.ranks)
    if (rank.actor.address() == sender->address()) rank.unanswered = 0;
}

}  // namespace troupe
