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

#include "actors/parts.h"
#include "actors/rank_exchange.h"
#include "actors/rank_trainer.h"
#include "actors/trainer_gradients.h"
#include "actors/trainer_moments.h"
#include "actors/trainer_watch.h"
#include "actors/update_warnings.h"
#include "actors/weights_check.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

// How long a run waits for its ranks, and until it says so.
constexpr std::chrono::seconds kRanksDeadline{120}, kRanksLate{5};

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

void note_done(TrainerSelf self, size_t rank, uint32_t weights) {
  auto& st = self->state;
  st.group->done(rank, weights);
  if (!st.group->all_done()) return;
  if (const auto other = st.group->different())
    throw std::runtime_error("rank " + std::to_string(*other) + " has other weights than rank 0 after update " +
                             std::to_string(st.version.number + 1) +
                             ": ranks need processors of the same kind and the same number of trainer.threads");
  st.failures = 0;
  TrainerUpdate update = *std::exchange(st.update, std::nullopt);
  const std::chrono::duration<double> exchange = update.sending + (self->clock().now() - update.computed);
  auto report = std::make_shared<UpdateReport>(*update.report);
  report->stages.exchange += exchange.count();
  constexpr double kForget = 0.9;
  const TrainerState::Clock::duration took = self->clock().now() - update.attempted;
  st.usual_update = std::max(
      took, std::chrono::duration_cast<TrainerState::Clock::duration>(kForget * st.usual_update.value_or(took)));
  update.report = std::move(report);
  update_ended(self, std::move(update));
}

// This rank's update is complete once it has the copy of the next rank's moments.
void note_own(TrainerSelf self) {
  const auto& st = self->state;
  if (st.update->weights && st.kept.has_copy()) note_done(self, 0, weights_check(*st.update->weights));
}

// Up to where the update waits for other ranks, or to its end.
void advance(TrainerSelf self) {
  auto& st = self->state;
  Advance state = Advance::more;
  while (state == Advance::more) state = st.learner->advance();
  if (state == Advance::waits) return;
  TrainerUpdate& update = *st.update;
  update.report = std::make_shared<const UpdateReport>(st.learner->finish());
  update.weights = st.learner->snapshot({st.version.epoch, st.version.number + 1});
  update.computed = self->clock().now();
  note_own(self);
}

void begin_attempt(TrainerSelf self) {
  auto& st = self->state;
  TrainerUpdate& update = *st.update;
  RankGroup& group = *st.group;
  const auto begun = update.attempted = self->clock().now();
  group.begin(update.index, ranks_now(st));
  bring_up(self);
  update.weights = nullptr;
  if (update.before) update.before->moments = st.learner->moments();
  if (keeps_copies(st.context->config)) st.kept.begin(st.learner->moments());
  std::vector<Rendezvous> gradients = begin_gradients(self);
  ExchangeAttempt attempt{
      group.attempt(), group.shards_of(0), {}, st.slices > 1 ? st.learner->trained_elements() : 0, !gradients.empty()};
  for (size_t rank = 1; rank < group.ranks(); ++rank)
    attempt.others.push_back({st.ranks[rank - 1].actor, group.shards_of(rank)});
  self->send(st.exchange, std::move(attempt));  // before any rank says something
  for (size_t rank = 1; rank < group.ranks(); ++rank) {
    const ShardRange shards = group.shards_of(rank);
    const auto drawn = std::span(update.batch.drawn).subspan(shards.first, shards.count);
    for (Rendezvous& each : gradients) each.rank = static_cast<int>(rank);
    tell(self, rank, RankSamples{group.attempt(), {drawn.begin(), drawn.end()}});
    self->send(st.ranks[rank - 1].actor, RankUpdate{group.attempt(), update.progress, shards, st.exchange, gradients});
  }
  note_heard(st);
  update.sending += self->clock().now() - begun;
  const ShardRange mine = group.shards_of(0);
  const std::vector<StagedBatch*> batches = own_batches(st, mine.count);
  update.samples = 0;
  for (const StagedBatch* batch : batches) update.samples += batch->samples;
  st.learner->hold_shards(mine);
  st.learner->begin(batches, update.progress);
  advance(self);
}

// Nothing for an actor that is no rank.
std::optional<size_t> rank_of(const TrainerState& st, const caf::actor_addr& actor) {
  const auto found = std::ranges::find(st.ranks, actor, [](const auto& rank) { return rank.actor.address(); });
  if (found == st.ranks.end()) return std::nullopt;
  return static_cast<size_t>(found - st.ranks.begin()) + 1;
}

// The rank that sent the message; nothing for a sender that is none, or is lost.
std::optional<size_t> sending_rank(TrainerSelf self) {
  if (!self->current_sender()) return std::nullopt;
  return rank_of(self->state, self->current_sender()->address());
}

void report_ranks(TrainerSelf self) {
  auto& st = self->state;
  if (st.ended) return;  // the figure stays as it was
  RanksMessage message{st.ranks.size() + 1, st.ranks_came};
  for (const TrainerState::Rank& rank : st.ranks)
    if (const auto process = process_here(self->node(), rank.actor.node())) message.processes_here.push_back(*process);
  self->send(st.peers.stats, std::move(message));
}

void lose_rank(TrainerSelf self, size_t rank, const std::string& why) {
  auto& st = self->state;
  const TrainerState::Rank lost = st.ranks[rank - 1];
  const std::string what = lost.name + " is gone (" + why + ")";
  const bool in_update = st.update && rank < st.group->ranks();
  self->demonitor(lost.actor.address());
  self->send(lost.actor, Stop{what});  // it may be there; then its process joins again
  st.parts.forget(lost.actor.address());
  st.ranks.erase(st.ranks.begin() + static_cast<std::ptrdiff_t>(rank - 1));
  report_ranks(self);
  const bool recovers = lost.has_slice && !st.has_moments;
  if (!st.ended && (!recovers || keeps_copies(st.context->config)))
    log_warn("trainer", what + "; its shards go to the others");
  if (recovers)
    recover_moments(self, what);
  else if (in_update && !divides_moments(st.context->config))
    try_again(self);
}

// Whether a message is of the attempt under way.
bool is_current(const TrainerState& st, const Attempt& attempt) {
  return st.update && st.group && !st.recovering && attempt == st.group->attempt();
}

}  // namespace

void lose_rank(TrainerSelf self, const caf::actor_addr& actor, const std::string& why) {
  if (const auto rank = rank_of(self->state, actor)) lose_rank(self, *rank, why);
}

// Its batches are staged again, because a learner changes those that it is given.
void begin_again(TrainerSelf self) {
  self->state.update->batch.shards.clear();
  begin_attempt(self);
}

void try_again(TrainerSelf self) {
  auto& st = self->state;
  st.learner->abandon();
  st.learner->load(*st.update->before->model, st.update->before->moments);
  for (auto& rank : st.ranks) rank.has_state = false;
  begin_again(self);
}

void start_ranks(TrainerSelf self) {
  auto& st = self->state;
  const TrainerConfig& config = st.context->config.trainer;
  if (config.ranks == 1) return;
  st.group.emplace(static_cast<size_t>(config.shards));
  // A rank sends moments of at most all parameters, and a copy of as many.
  constexpr size_t kMoments = 2 * sizeof(float), kRest = 1 << 20;
  st.parts = PartAssembler(2 * kMoments * st.learner->trained_elements() + kRest);
  st.exchange = spawn_on(self->system(), st.context->threads, rank_exchange, st.context, ExchangeOwner(self));
  self->link_to(st.exchange);  // neither goes on without the other
  st.learner->say_to([self](const RoundPiece& piece, RankPart part) {
    auto& st = self->state;
    if (st.gradients && st.gradients->takes(part)) return st.gradients->say(piece, std::move(part));
    self->send(st.exchange, RankSaid{st.group->attempt(), piece, std::move(part)});
  });
  self->set_down_handler([self](const caf::down_msg& down) {
    lose_rank(self, down.source, down.reason ? describe(down.reason) : "it has left");
  });
  if (st.context->rank_processes && divides_moments(st.context->config) && !keeps_copies(st.context->config))
    log_warn("trainer",
             "with trainer.redundancy none a rank that is lost ends the run, which resumes from its last checkpoint");
  if (st.context->rank_processes) {
    self->delayed_send(self, kRanksLate, due_atom_v);
    return watch_ranks(self);
  }
  for (int64_t rank = 1; rank < config.ranks; ++rank) {
    st.ranks.push_back({spawn_on(self->system(), st.context->threads, rank_trainer, st.context,
                                 st.context->make_learner(), GradientBackendTowards())});
    self->link_to(st.ranks.back().actor);  // neither goes on without the other
  }
}

bool waits_for_ranks(const TrainerState& st) {
  return st.group && !st.ranks_came && static_cast<int64_t>(st.ranks.size()) + 1 < st.context->config.trainer.ranks;
}

void on_rank_joined(TrainerSelf self, const RankJoined& joined) {
  auto& st = self->state;
  if (!st.group || st.ended || rank_of(st, joined.rank.address())) return;
  st.ranks.push_back({joined.rank, joined.name});
  self->monitor(joined.rank);
  meet_ranks_at(self, joined.address);
  st.ranks_came |= !waits_for_ranks(st);
  report_ranks(self);
  if (!st.ranks_came) return;
  if (std::exchange(st.ask_owed, false)) ask(self);
}

void on_ranks_due(TrainerSelf self) {
  auto& st = self->state;
  if (!waits_for_ranks(st)) return;
  const std::string here = "only " + std::to_string(st.ranks.size() + 1) + " of trainer.ranks " +
                           std::to_string(st.context->config.trainer.ranks) + " have come within ";
  const auto seconds = [](std::chrono::seconds time) { return std::to_string(time.count()) + " s"; };
  if (std::exchange(st.ranks_late, true)) return request_end(self, "ranks are missing", here + seconds(kRanksDeadline));
  log_warn("trainer", here + seconds(kRanksLate) + "; training begins when all have, and the run ends after " +
                          seconds(kRanksDeadline) + " without them");
  self->delayed_send(self, kRanksDeadline - kRanksLate, due_atom_v);
}

void on_rank_part(TrainerSelf self, const Part& part) {
  auto& st = self->state;
  const std::optional<size_t> rank = sending_rank(self);
  if (!rank) return;
  note_heard(st);
  RankMoments moments;
  try {
    TROUPE_CHECK(part.of == PartOf::rank_moments, static_cast<int>(part.of));
    const auto whole = st.parts.add(self->current_sender()->address(), part);
    if (!whole) return;
    moments = deserialize<RankMoments>(self->system(), *whole);
  } catch (const std::exception& error) {
    return lose_rank(self, *rank, error.what());
  }
  on_rank_moments(self, moments);
}

void on_rank_copy(TrainerSelf self, const RankCopy& copy) {
  auto& st = self->state;
  if (!is_current(st, copy.attempt)) return;
  note_heard(st);
  try {
    st.kept.add(copy.piece);
  } catch (const InvariantError& error) {
    return lose_rank(self, 1, error.what());
  }
  note_own(self);
}

namespace {

void start_update(TrainerSelf self, const StagedMessage& message, double progress) {
  auto& st = self->state;
  TROUPE_CHECK(!st.update, message.index());
  st.update.emplace(
      TrainerUpdate{.index = message.index(), .batch = message, .begun = self->clock().now(), .progress = progress});
  if (st.group && (!st.ranks.empty() || st.slices > 1)) {
    const RunConfig& config = st.context->config;
    if (st.context->rank_processes && (!divides_moments(config) || keeps_copies(config)))
      st.update->before = {std::make_shared<const LearnerState>(st.learner->save_without_moments()), {}};
    return begin_attempt(self);
  }
  std::vector<StagedBatch*> batches = message.batches();
  if (st.group) {  // without the other ranks
    batches = own_batches(st, st.group->shards());
    st.learner->hold_shards({0, st.group->shards()});
  }
  TrainerUpdate update = *std::exchange(st.update, std::nullopt);
  update.report = std::make_shared<const UpdateReport>(st.learner->update(batches, progress));
  update.samples = update.batch.samples();
  update_ended(self, std::move(update));
}

}  // namespace

void begin_update(TrainerSelf self, const StagedMessage& message, double progress) {
  auto& st = self->state;
  const bool divided_anew = st.slices > 1 && ranks_now(st) != st.slices;
  if (divided_anew || st.recovering || !st.when_there.empty())
    return with_moments(self, [self, message, progress] {
      if (!self->state.ended) start_update(self, message, progress);
    });
  start_update(self, message, progress);
}

void on_round(TrainerSelf self, const RoundSaid& said) {
  auto& st = self->state;
  if (!is_current(st, said.attempt)) return;
  note_heard(st);
  st.learner->deliver(said.piece, said.all);
  advance(self);
}

void on_rank_misfit(TrainerSelf self, const RankMisfit& misfit) {
  const auto& st = self->state;
  const std::optional<size_t> rank = rank_of(st, misfit.rank);
  if (!rank && misfit.rank != self->address()) return;  // lost by now
  if (!rank || st.ranks[*rank - 1].name.empty()) throw std::runtime_error(misfit.error);
  lose_rank(self, *rank, misfit.error);
}

void on_rank_done(TrainerSelf self, const RankDone& done) {
  auto& st = self->state;
  const std::optional<size_t> rank = sending_rank(self);
  if (!rank || !is_current(st, done.attempt) || *rank >= st.group->ranks() || st.group->is_done(*rank)) return;
  note_heard(st);
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
