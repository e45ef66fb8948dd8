#include "actors/rank_trainer.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/weights_check.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using RankSelf = SelfPointer<RankActor, RankTrainerState>;

// Up to where the update waits for the other ranks, or to its end.
void advance(RankSelf self) {
  auto& st = self->state;
  Advance state = Advance::more;
  while (state == Advance::more) state = st.learner->advance();
  if (state == Advance::waits) return;
  st.learner->finish();
  st.batches.clear();
  self->send(st.lead, RankDone{st.attempt, weights_check(*st.learner), st.samples});
}

void abandon(RankTrainerState& st) {
  if (!st.batches.empty()) st.learner->abandon();
  st.batches.clear();
}

void on_state(RankSelf self, const RankState& state) {
  auto& st = self->state;
  abandon(st);
  st.learner->hold_slice(state.rank, state.ranks);
  st.learner->load(*state.learner);
}

void on_save(RankSelf self, const RankSave& save) {
  auto& st = self->state;
  send_in_parts(self, caf::actor_cast<RankLead>(self->current_sender()),
                RankMoments{save.number, st.learner->moments()}, st.context->config.network.chunk_bytes, st.streams);
}

void on_update(RankSelf self, const RankUpdate& update) {
  auto& st = self->state;
  if (!std::exchange(st.threads_set, true))
    st.context->use_threads(static_cast<int>(st.context->config.trainer.threads));
  TROUPE_CHECK(st.batches.empty(), update.attempt.update, st.attempt.update);
  st.lead = caf::actor_cast<RankLead>(self->current_sender());
  st.exchange = update.exchange;
  st.attempt = update.attempt;
  st.samples = 0;
  std::vector<StagedBatch*> batches;
  for (const auto& batch : update.batches) {
    batches.push_back(st.batches.emplace_back(st.stager->stage(*batch)).get());
    st.samples += batches.back()->samples;
  }
  st.learner->hold_shards(update.shards);
  st.learner->begin(batches, update.progress);
  advance(self);
}

void on_round(RankSelf self, const RoundSaid& said) {
  auto& st = self->state;
  if (st.batches.empty() || said.attempt != st.attempt) return;
  st.learner->deliver(said.piece, said.all);
  advance(self);
}

void on_part(RankSelf self, const Part& part) {
  if (!self->current_sender()) return;  // the connection is already lost
  const auto whole = self->state.parts.add(self->current_sender()->address(), part);
  if (!whole) return;
  switch (part.of) {
    case PartOf::rank_state: return on_state(self, deserialize<RankState>(self->system(), *whole));
    case PartOf::rank_update: return on_update(self, deserialize<RankUpdate>(self->system(), *whole));
    case PartOf::round_said: return on_round(self, deserialize<RoundSaid>(self->system(), *whole));
    default: TROUPE_CHECK(false, static_cast<int>(part.of));
  }
}

}  // namespace

RankActor::behavior_type rank_trainer(RankSelf self, RunContextPtr context, std::shared_ptr<Learner> learner) {
  begin_actor(self, *context);
  self->state.context = std::move(context);
  self->state.stager = learner->stager();
  self->state.learner = std::move(learner);
  self->state.learner->say_to([self](const RoundPiece& piece, RankPart part) {
    auto& st = self->state;
    send_in_parts(self, st.exchange, RankSaid{st.attempt, piece, std::move(part)},
                  st.context->config.network.chunk_bytes, st.streams);
  });
  return {
      [self](const RankState& state) { on_state(self, state); },
      [self](const RankUpdate& update) { on_update(self, update); },
      [self](const RoundSaid& said) { on_round(self, said); },
      [self](const RankSave& save) { on_save(self, save); },
      [self](const Part& part) { on_part(self, part); },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
