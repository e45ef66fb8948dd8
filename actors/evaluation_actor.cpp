#include "actors/evaluation_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/kinds.h"
#include "actors/warmup.h"
#include "models/heads/heads.h"
#include "runtime/base/rng.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using EvaluationSelf = SelfPointer<EvaluationActor, EvaluationActorState>;

// A slice ends after so many steps, or after this time, or where an episode has ended: what it has played is known only
// then, and the next step may never return.
constexpr int kStepsPerSlice = 64;
constexpr std::chrono::milliseconds kSliceTime{200};

EvaluationSlice slice_of(const EvaluationActorState& st) {
  EvaluationSlice slice;
  slice.steps = st.steps;
  slice.so_far.version = st.job.weights->version;
  slice.so_far.last = st.job.last;
  slice.so_far.of_warmup = st.job.of_warmup;
  if (!st.player) return slice;
  const EpisodeSummary summary = st.player->summary();
  slice.planned = st.player->planned();
  slice.failures = summary.failures();
  slice.so_far.episodes = summary.episodes;
  slice.so_far.failed_episodes = summary.failed;
  slice.so_far.return_mean = summary.return_mean;
  slice.so_far.return_std = summary.return_std;
  slice.so_far.length_mean = summary.length_mean;
  slice.so_far.cut_fraction = summary.cut_fraction;
  slice.so_far.success_rate = summary.success_rate;
  slice.so_far.last_error = summary.last_error;
  slice.so_far.pass_at = summary.pass_at;
  slice.answers = st.player->take_answers();
  slice.over = st.player->complete();
  return slice;
}

// Does `work` for the current evaluation and returns how far it is. An exception ends the evaluation.
template <class Work>
EvaluationSlice after(EvaluationActorState& st, Work work) {
  std::string error;
  bool not_finite = false;
  try {
    work();
  } catch (const NotFinite& e) {
    error = e.what();
    not_finite = true;
  } catch (const std::exception& e) {
    error = e.what();
  }
  EvaluationSlice slice = slice_of(st);
  slice.so_far.error = error;
  slice.so_far.not_finite = not_finite;
  slice.over |= !error.empty();
  if (slice.over) st.job = {};
  return slice;
}

void begin(EvaluationActorState& st) {
  if (!st.player) {
    st.context->use_threads(static_cast<int>(st.context->config.inference.threads));
    st.player = kind_of(*st.context).make_evaluation(st.context, st.context, st.grader);
  }
  const RunConfig& config = st.context->config;
  if (st.job.of_warmup)
    return st.player->begin(*st.job.weights, {.seed = derive_key(config.seed, "warm-up"), .episodes = kWarmupPrompts});
  EvaluationPlan plan = evaluation_plan(config);
  plan.reference = st.job.reference;
  st.player->begin(*st.job.weights, plan);
}

// The player has loaded the weights: an update that begins meanwhile can use their memory.
void release(EvaluationActorState& st) {
  if (st.job.weights) st.job.weights = without_values(*st.job.weights);
  st.job.reference = nullptr;
}

void play(EvaluationSelf self) {
  auto& st = self->state;
  const auto begun = self->clock().now();
  const auto in_time = [&] { return st.context->deterministic || self->clock().now() - begun < kSliceTime; };
  const auto ended = [&st] { return st.player->summary().ended(); };
  const uint64_t before = ended();
  for (int i = 0; i < kStepsPerSlice && !st.player->complete() && in_time(); ++i) {
    st.player->step();
    ++st.steps;
    if (!st.context->deterministic && ended() != before) return;
  }
}

}  // namespace

EvaluationActor::behavior_type evaluation_actor(EvaluationSelf self, RunContextPtr context,
                                                std::shared_ptr<Grader> grader) {
  begin_actor(self, *context);
  self->state.context = std::move(context);
  self->state.grader = std::move(grader);
  const auto answer = [self](const EvaluationSlice& slice) {
    using Evaluator = caf::typed_actor<caf::reacts_to<EvaluationSlice>>;
    self->send(caf::actor_cast<Evaluator>(self->current_sender()), slice);
  };
  return {
      [self, answer](EvaluateMessage& job) {
        self->state.job = std::move(job);
        self->state.steps = 0;
        answer(after(self->state, [self] { begin(self->state); }));
        release(self->state);
      },
      [self, answer](next_atom) {
        if (self->state.job.weights) answer(after(self->state, [self] { play(self); }));
      },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
