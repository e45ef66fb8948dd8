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
  if (state == Advance::waits) return self->send(st.lead, RankSaid{st.attempt, st.round, st.learner->say()});
  st.learner->finish();
  st.batches.clear();
  self->send(st.lead, RankDone{st.attempt, weights_check(*st.learner), st.samples});
}

void abandon(RankTrainerState& st) {
  if (!st.batches.empty()) st.learner->abandon();
  st.batches.clear();
}

void on_update(RankSelf self, const RankUpdate& update) {
  auto& st = self->state;
  if (!std::exchange(st.threads_set, true))
    st.context->use_threads(static_cast<int>(st.context->config.trainer.threads));
  TROUPE_CHECK(st.batches.empty(), update.attempt.update, st.attempt.update);
  st.lead = caf::actor_cast<RankLead>(self->current_sender());
  st.attempt = update.attempt;
  st.round = st.samples = 0;
  std::vector<StagedBatch*> batches;
  for (const auto& batch : update.batches) {
    batches.push_back(st.batches.emplace_back(st.stager->stage(*batch)).get());
    st.samples += batches.back()->samples;
  }
  st.learner->hold_shards(update.shards);
  st.learner->begin(batches, update.progress);
  advance(self);
}

}  // namespace

RankActor::behavior_type rank_trainer(RankSelf self, RunContextPtr context, std::shared_ptr<Learner> learner) {
  begin_actor(self, *context);
  self->state.context = std::move(context);
  self->state.stager = learner->stager();
  self->state.learner = std::move(learner);
  return {
      [self](const RankState& state) {
        abandon(self->state);
        self->state.learner->load(*state.learner);
      },
      [self](const RankUpdate& update) { on_update(self, update); },
      [self](const RoundSaid& said) {
        auto& st = self->state;
        if (st.batches.empty() || said.attempt != st.attempt) return;
        TROUPE_CHECK(said.round == st.round, said.round, st.round);
        ++st.round;
        st.learner->deliver(said.all);
        advance(self);
      },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
