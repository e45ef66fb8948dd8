#include "actors/evaluator.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using EvaluatorSelf = SelfPointer<EvaluatorActor, EvaluatorState>;
using Asker = caf::typed_actor<caf::reacts_to<Evaluation>>;

constexpr int kStepsPerSlice = 64;

void begin(EvaluatorState& st) {
  if (!st.player) {
    st.context->use_threads(static_cast<int>(st.context->config.inference.threads));
    st.player = make_evaluation_player(st.context);
  }
  st.player->begin(*st.job.weights, st.context->config.seed, st.context->config.evaluation.episodes);
}

Evaluation summarize(const EvaluatorState& st) {
  Evaluation result;
  result.version = st.job.weights->version;
  result.last = st.job.last;
  if (!st.player) return result;
  const EpisodeSummary summary = st.player->summary();
  result.episodes = summary.episodes;
  result.return_mean = summary.return_mean;
  result.return_std = summary.return_std;
  result.length_mean = summary.length_mean;
  result.success_rate = summary.success_rate;
  return result;
}

Evaluation failed(const EvaluatorState& st, const std::string& error) {
  const std::string line = "the evaluation of version " + st.job.weights->version.text() + " failed: " + error;
  st.job.last ? log_info("evaluator", line) : log_warn("evaluator", line);  // the command prints the last one's error
  Evaluation result = summarize(st);
  result.error = error;
  return result;
}

void finish(EvaluatorSelf self, const Evaluation& result);

void start(EvaluatorSelf self) {
  auto& st = self->state;
  st.job = std::exchange(st.waiting, {});
  st.asker = std::exchange(st.next_asker, nullptr);
  try {
    begin(st);
    self->send(self, next_atom_v);
  } catch (const std::exception& e) {
    finish(self, failed(st, e.what()));
  }
}

void finish(EvaluatorSelf self, const Evaluation& result) {
  auto& st = self->state;
  st.job = {};
  self->send(st.stats, result);
  self->send(caf::actor_cast<Asker>(st.asker), result);
  if (st.waiting.weights) start(self);
}

void slice(EvaluatorSelf self) {
  auto& st = self->state;
  if (!st.job.weights) return;
  try {
    for (int i = 0; i < kStepsPerSlice && !st.player->complete(); ++i) st.player->step();
  } catch (const std::exception& e) {
    finish(self, failed(st, e.what()));
    return;
  }
  if (st.player->complete()) {
    finish(self, summarize(st));
  } else {
    self->send(self, next_atom_v);
  }
}

}  // namespace

EvaluatorActor::behavior_type evaluator(EvaluatorSelf self, RunContextPtr context, StatsActor stats) {
  guard(self);
  self->state.context = context;
  self->state.stats = stats;
  return {
      [self](const EvaluateMessage& job) {
        auto& st = self->state;
        if (st.waiting.weights && st.waiting.last) return;  // a later one must not replace the last evaluation
        st.waiting = job;
        st.next_asker = self->current_sender();
        if (!st.job.weights) start(self);
      },
      [self](next_atom) { slice(self); },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
