#include "actors/trainer_update.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/rank_trainer.h"
#include "actors/update_warnings.h"
#include "actors/weights_check.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

// Those of the first shards, which are this rank's.
std::vector<StagedBatch*> own_batches(TrainerState& st, size_t count) {
  StagedMessage& batch = st.update->batch;
  while (batch.shards.size() < count)
    batch.shards.push_back(st.learner->stager()->stage(*batch.drawn[batch.shards.size()]));
  std::vector<StagedBatch*> result = batch.batches();
  result.resize(count);
  return result;
}

void advance(TrainerSelf self);

// All ranks have said what they have in the round.
void end_round(TrainerSelf self, uint64_t round, RoundResult all) {
  auto& st = self->state;
  for (const RankActor& rank : st.ranks) self->send(rank, RoundSaid{st.group->attempt(), round, all});
  st.learner->deliver(std::move(all));
}

void note_done(TrainerSelf self, size_t rank, uint32_t weights) {
  auto& st = self->state;
  st.group->done(rank, weights);
  if (!st.group->all_done()) return;
  if (const auto other = st.group->different())
    throw std::runtime_error("rank " + std::to_string(*other) + " has other weights than rank 0 after update " +
                             std::to_string(st.version.number + 1) +
                             ": ranks need processors of the same kind and the same number of trainer.threads");
  update_ended(self, *std::exchange(st.update, std::nullopt));
}

// Up to where the update waits for other ranks, or to its end.
void advance(TrainerSelf self) {
  auto& st = self->state;
  for (;;) {
    Advance state = Advance::more;
    while (state == Advance::more) state = st.learner->advance();
    if (state == Advance::done) break;
    const uint64_t round = st.group->round();
    std::optional<RoundResult> all = st.group->say(0, st.learner->say());
    if (!all) return;
    end_round(self, round, *std::move(all));
  }
  TrainerUpdate& update = *st.update;
  update.report = std::make_shared<const UpdateReport>(st.learner->finish());
  update.weights = st.learner->snapshot({st.version.epoch, st.version.number + 1});
  note_done(self, 0, weights_check(*update.weights));
}

void begin_attempt(TrainerSelf self) {
  auto& st = self->state;
  TrainerUpdate& update = *st.update;
  RankGroup& group = *st.group;
  group.begin(update.batch.index(), st.ranks.size() + 1);
  if (!std::exchange(st.ranks_have_state, true)) {
    const RankState state{std::make_shared<const LearnerState>(st.learner->save())};
    for (const RankActor& rank : st.ranks) self->send(rank, state);
  }
  for (size_t rank = 1; rank < group.ranks(); ++rank) {
    const ShardRange shards = group.shards_of(rank);
    const auto drawn = std::span(update.batch.drawn).subspan(shards.first, shards.count);
    self->send(st.ranks[rank - 1], RankUpdate{group.attempt(), update.progress, shards, {drawn.begin(), drawn.end()}});
  }
  const ShardRange mine = group.shards_of(0);
  const std::vector<StagedBatch*> batches = own_batches(st, mine.count);
  update.samples = 0;
  for (const StagedBatch* batch : batches) update.samples += batch->samples;
  st.learner->hold_shards(mine);
  st.learner->begin(batches, update.progress);
  advance(self);
}

// The rank that sent a message; nothing for a sender that is none.
std::optional<size_t> rank_of(TrainerSelf self) {
  const auto& ranks = self->state.ranks;
  const auto found = std::ranges::find_if(
      ranks, [self](const RankActor& rank) { return rank.address() == self->current_sender()->address(); });
  if (found == ranks.end()) return std::nullopt;
  return static_cast<size_t>(found - ranks.begin()) + 1;
}

// Whether a message is of the attempt under way.
bool is_current(const TrainerState& st, const Attempt& attempt) {
  return st.update && st.group && attempt == st.group->attempt();
}

}  // namespace

void start_ranks(TrainerSelf self) {
  auto& st = self->state;
  const auto ranks = static_cast<size_t>(st.context->config.trainer.ranks);
  if (ranks == 1) return;
  st.group.emplace(static_cast<size_t>(st.context->config.trainer.shards));
  for (size_t rank = 1; rank < ranks; ++rank) {
    st.ranks.push_back(
        spawn_on(self->system(), st.context->threads, rank_trainer, st.context, st.context->make_learner()));
    self->link_to(st.ranks.back());  // neither goes on without the other
  }
}

void begin_update(TrainerSelf self, const StagedMessage& message, double progress) {
  auto& st = self->state;
  TROUPE_CHECK(!st.update, message.index());
  st.update.emplace(TrainerUpdate{.batch = message, .begun = self->clock().now(), .progress = progress});
  if (st.group) return begin_attempt(self);
  TrainerUpdate update = *std::exchange(st.update, std::nullopt);
  update.report = std::make_shared<const UpdateReport>(st.learner->update(update.batch.batches(), progress));
  update.samples = update.batch.samples();
  update_ended(self, std::move(update));
}

void on_rank_said(TrainerSelf self, const RankSaid& said) {
  auto& st = self->state;
  const std::optional<size_t> rank = rank_of(self);
  if (!rank || !is_current(st, said.attempt)) return;
  const uint64_t round = st.group->round();
  TROUPE_CHECK(said.round == round, said.round, round);
  std::optional<RoundResult> all = st.group->say(*rank, said.part);
  if (!all) return;
  end_round(self, round, *std::move(all));
  advance(self);
}

void on_rank_done(TrainerSelf self, const RankDone& done) {
  auto& st = self->state;
  const std::optional<size_t> rank = rank_of(self);
  if (!rank || !is_current(st, done.attempt)) return;
  st.update->samples += done.samples;
  note_done(self, *rank, done.weights);
}

// A run may skip steps in every update, and with short rollouts find nothing in every update.
void warn_of(TrainerSelf self, const UpdateReport& report, uint64_t samples) {
  auto& st = self->state;
  const RunConfig& config = st.context->config;
  if (report.skipped > 0 && !std::exchange(st.warned_of_skipped, true))
    log_warn("trainer", skipped_warning(config, st.version.number, report));
  if (report.empty() && !std::exchange(st.warned_of_empty, true))
    log_warn("trainer", empty_warning(config, st.version.number, samples));
}

}  // namespace troupe
