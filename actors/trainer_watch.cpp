#include "actors/trainer_watch.h"

#include <algorithm>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/trainer_gradients.h"

namespace troupe {

std::chrono::seconds patience(const TrainerState& st) {
  constexpr std::chrono::seconds kLeast{120}, kFirst{1800};
  constexpr int kTransfers = 4, kUpdates = 5;
  std::chrono::nanoseconds time = kLeast;
  if (!st.usual_update) time = kFirst;
  time = std::max<std::chrono::nanoseconds>(time, kTransfers * st.context->config.network.transfer_timeout);
  time = std::max<std::chrono::nanoseconds>(time, kUpdates * st.usual_update.value_or(TrainerState::Clock::duration{}));
  return std::chrono::ceil<std::chrono::seconds>(time);
}

void note_heard(TrainerState& st) { st.silence = 0; }

namespace {

constexpr std::chrono::seconds kBetween{10};

bool takes_part(const TrainerState& st, const TrainerState::Rank& rank) {
  const auto index = static_cast<size_t>(&rank - st.ranks.data()) + 1;
  return st.update && st.group && !st.recovering && index < st.group->ranks();
}

// All ranks wait, and nothing comes.
void end_silence(TrainerSelf self, const std::string& time) {
  auto& st = self->state;
  note_heard(st);
  if (st.asked.empty()) return update_failed(self, "the ranks have heard nothing of each other for " + time);
  for (const caf::actor_addr& rank : std::vector(st.asked)) lose_rank(self, rank, "it has sent no moments for " + time);
}

}  // namespace

// Counts questions, not time: after a pause of this process the answers are in its mailbox.
void watch_ranks(TrainerSelf self) {
  auto& st = self->state;
  if (!st.learner) return;
  const auto questions = static_cast<uint64_t>(patience(st) / kBetween);
  const std::string time = std::to_string(patience(st).count()) + " s";
  std::vector<caf::actor_addr> silent;
  for (TrainerState::Rank& rank : st.ranks) {
    if (rank.unanswered == questions) silent.push_back(rank.actor.address());
    if (rank.unanswered++ == 0) self->send(rank.actor, RankPing{takes_part(st, rank) ? st.group->attempt().number : 0});
  }
  for (const caf::actor_addr& rank : silent) lose_rank(self, rank, "it has answered nothing for " + time);
  if (!st.update && st.asked.empty()) note_heard(st);
  if (st.silence++ == questions) end_silence(self, time);
  self->delayed_send(self, kBetween, beat_atom_v);
}

void on_rank_pong(TrainerSelf self, const RankPong& pong) {
  auto& st = self->state;
  if (!self->current_sender()) return;
  const auto rank = std::ranges::find(st.ranks, self->current_sender()->address(),
                                      [](const TrainerState::Rank& each) { return each.actor.address(); });
  if (rank == st.ranks.end()) return;
  rank->unanswered = 0;
  const bool of_this = takes_part(st, *rank) && pong.number == st.group->attempt().number;
  if (of_this && pong.attempt != pong.number)
    lose_rank(self, rank->actor.address(), "what was sent to it has not arrived");
}

}  // namespace troupe
