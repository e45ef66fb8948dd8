#include "actors/rank_trainer.h"

#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/rank_group.h"
#include "actors/weights_check.h"
#include "models/shards/gradient_pieces.h"
#include "runtime/base/errors.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using RankSelf = SelfPointer<RankActor, RankTrainerState>;

// Its update is complete once it has the copy of the next rank's moments.
void say_done(RankSelf self) {
  auto& st = self->state;
  if (st.computed && st.kept.has_copy())
    self->send(st.lead, RankDone{st.attempt, weights_check(*st.learner), st.samples});
}

// Up to where the update waits for the other ranks, or to its end.
void advance(RankSelf self) {
  auto& st = self->state;
  Advance state = Advance::more;
  while (state == Advance::more) state = st.learner->advance();
  if (state == Advance::waits) return;
  st.learner->finish();
  st.batches.clear();
  st.computed = true;
  if (keeps_copies(st.context->config))
    in_pieces(st.learner->moments(), piece_elements(st.context->config.trainer), [&](AdamMoments piece) {
      send_in_parts(self, st.exchange, RankCopy{st.attempt, std::move(piece)}, st.context->config.network.chunk_bytes,
                    st.streams);
    });
  say_done(self);
}

void on_copy(RankSelf self, const RankCopy& copy) {
  auto& st = self->state;
  if (copy.attempt != st.attempt) return;
  st.kept.add(copy.piece);
  if (st.kept.has_copy()) say_done(self);
}

void abandon(RankTrainerState& st) {
  if (!st.batches.empty()) st.learner->abandon();
  st.batches.clear();
}

void on_state(RankSelf self, const RankState& state) {
  auto& st = self->state;
  abandon(st);
  st.attempt = {};  // copies of the one that is given up may still come
  st.computed = false;
  st.learner->hold_slice(state.rank, state.ranks);
  st.learner->load(*state.learner, state.moments);
  st.kept.divide(state.next.empty() ? std::nullopt : std::optional(state.next.front()));
}

void on_save(RankSelf self, const RankSave& save) {
  auto& st = self->state;
  if (!self->current_sender()) return;  // the connection is already lost
  send_in_parts(self, caf::actor_cast<RankLead>(self->current_sender()),
                RankMoments{save.number, moments_wanted(save.wanted, *st.learner, st.kept)},
                st.context->config.network.chunk_bytes, st.streams);
}

void begin_gradients(RankSelf self, const RankUpdate& update) {
  auto& st = self->state;
  if (update.gradients.empty()) {
    if (st.gradients) st.gradients->leave();
    return;
  }
  const Rendezvous& group = update.gradients.front();
  TROUPE_CHECK(st.make_gradients, group.host);
  if (!st.gradients) st.gradients.emplace(st.make_gradients(group.host), st.context->config.network);
  st.gradients->begin(
      update.attempt, group,
      gradient_division(st.context->config, static_cast<size_t>(group.size), st.learner->trained_elements()),
      [to = RankActor(self)](const RoundSaid& said) { caf::anon_send(to, said); },
      [to = st.lead](const GradientsFailed& failed) { caf::anon_send(to, failed); });
}

void on_update(RankSelf self, const RankUpdate& update) {
  auto& st = self->state;
  if (!self->current_sender() || !update.exchange) return;  // the connection is already lost
  if (!std::exchange(st.threads_set, true))
    st.context->use_threads(static_cast<int>(st.context->config.trainer.threads));
  TROUPE_CHECK(st.batches.empty(), update.attempt.update, st.attempt.update);
  st.lead = caf::actor_cast<RankLead>(self->current_sender());
  st.exchange = update.exchange;
  st.attempt = update.attempt;
  st.samples = 0;
  st.computed = false;
  begin_gradients(self, update);
  if (keeps_copies(st.context->config)) st.kept.begin(st.learner->moments());
  TROUPE_CHECK(st.drawn.attempt == update.attempt, st.drawn.attempt.number, update.attempt.number);
  std::vector<StagedBatch*> batches;
  for (const auto& batch : std::exchange(st.drawn.batches, {})) {
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
    case PartOf::rank_samples: self->state.drawn = deserialize<RankSamples>(self->system(), *whole); return;
    case PartOf::rank_copy: return on_copy(self, deserialize<RankCopy>(self->system(), *whole));
    case PartOf::round_said: return on_round(self, deserialize<RoundSaid>(self->system(), *whole));
    default: TROUPE_CHECK(false, static_cast<int>(part.of));
  }
}

}  // namespace

RankActor::behavior_type rank_trainer(RankSelf self, RunContextPtr context, std::shared_ptr<Learner> learner,
                                      GradientBackendTowards gradients) {
  begin_actor(self, *context);
  self->state.make_gradients = std::move(gradients);
  self->state.context = std::move(context);
  self->state.stager = learner->stager();
  self->state.learner = std::move(learner);
  self->state.learner->say_to([self](const RoundPiece& piece, RankPart part) {
    auto& st = self->state;
    if (st.gradients && st.gradients->takes(part)) return st.gradients->say(piece, std::move(part));
    send_in_parts(self, st.exchange, RankSaid{st.attempt, piece, std::move(part)},
                  st.context->config.network.chunk_bytes, st.streams);
  });
  return {
      [self](const RankState& state) { on_state(self, state); },
      [self](const RankSamples& samples) { self->state.drawn = samples; },
      [self](const RankUpdate& update) { on_update(self, update); },
      [self](const RoundSaid& said) { on_round(self, said); },
      [self](const RankCopy& copy) { on_copy(self, copy); },
      [self](const RankSave& save) { on_save(self, save); },
      [self](const RankPing& ping) {
        if (self->current_sender())
          self->send(caf::actor_cast<RankLead>(self->current_sender()),
                     RankPong{ping.number, self->state.attempt.number});
      },
      [self](const Part& part) { on_part(self, part); },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
