#include "actors/evaluator.h"

#include <cmath>
#include <numeric>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/caf_system.h"
#include "runtime/rng.h"

namespace troupe {

namespace {

using Self = EvaluatorActor::stateful_pointer<EvaluatorState>;
using Asker = caf::typed_actor<caf::reacts_to<Evaluation>>;

constexpr int kStepsPerSlice = 64;
constexpr uint64_t kMaxFailures = 1000;  // environment failures after which an evaluation gives up

void begin(EvaluatorState& st) {
  const EvaluationConfig& config = st.wiring->config.evaluation;
  if (!st.policy) {
    st.wiring->use_threads(static_cast<int>(st.wiring->config.inference.threads));
    st.policy = st.wiring->make_policy();
  }
  st.policy->load(*st.job.weights);
  EnvConfig env = st.wiring->config.env;
  env.rows = std::min(config.rows, config.episodes);
  st.env = st.wiring->make_env(env);
  const auto rows = static_cast<size_t>(env.rows);
  st.step = EnvStep::allocate(st.env->spec(), env.rows);
  st.env->reset(derive_key(st.wiring->config.seed, "evaluation"), 0, st.step);
  st.share.assign(rows, config.episodes / env.rows);
  for (int64_t n = 0; n < config.episodes % env.rows; ++n) ++st.share[static_cast<size_t>(n)];
  st.done.assign(rows, 0);
  st.row_return.assign(rows, 0);
  st.row_length.assign(rows, 0);
  st.returns.clear();
  st.lengths.clear();
  st.successes = st.failures = 0;
}

bool complete(const EvaluatorState& st) { return st.returns.size() >= static_cast<size_t>(st.wiring->config.evaluation.episodes); }

void play_step(EvaluatorState& st) {
  const int64_t rows = st.env->rows();
  ActInput input;
  input.observations = st.step.observations;
  if (st.env->spec().action.masked) input.action_mask = st.step.action_mask;
  input.seeds = Array(DType::i64, {rows});
  input.deterministic = Array(DType::u8, {rows});
  std::ranges::fill(input.deterministic.mutable_view<uint8_t>(), uint8_t{1});
  const ActOutput output = st.policy->act(input);
  st.env->step(output.actions, st.step);
  for (size_t n = 0; n < static_cast<size_t>(rows); ++n) {
    if (st.done[n] >= st.share[n]) continue;
    const bool failed = st.step.failed.view<uint8_t>()[n] != 0;
    st.failures += failed;
    st.row_return[n] += failed ? 0 : st.step.rewards.view<float>()[n];
    st.row_length[n] += st.step.executed.view<int32_t>()[n];
    const bool over = st.step.terminated.view<uint8_t>()[n] != 0 || st.step.truncated.view<uint8_t>()[n] != 0;
    if (over && !failed) {
      ++st.done[n];
      st.returns.push_back(st.row_return[n]);
      st.lengths.push_back(st.row_length[n]);
      st.successes += st.step.success.view<uint8_t>()[n];
    }
    if (over || failed) {
      st.row_return[n] = 0;
      st.row_length[n] = 0;
    }
  }
}

Evaluation summarize(const EvaluatorState& st) {
  Evaluation result;
  result.version = st.job.weights->version;
  result.last = st.job.last;
  result.episodes = st.returns.size();
  const auto count = static_cast<double>(st.returns.size());
  if (st.returns.empty()) return result;
  result.return_mean = std::accumulate(st.returns.begin(), st.returns.end(), 0.0) / count;
  double squares = 0;
  for (double x : st.returns) squares += (x - result.return_mean) * (x - result.return_mean);
  result.return_std = std::sqrt(squares / count);
  result.length_mean = static_cast<double>(std::accumulate(st.lengths.begin(), st.lengths.end(), int64_t{0})) / count;
  result.success_rate = static_cast<double>(st.successes) / count;
  return result;
}

Evaluation failed(const EvaluatorState& st, const std::string& error) {
  Evaluation result = summarize(st);
  result.error = error;
  return result;
}

void finish(Self self, const Evaluation& result);

void start(Self self) {
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

void finish(Self self, const Evaluation& result) {
  auto& st = self->state;
  st.job = {};
  self->send(st.stats, result);
  self->send(caf::actor_cast<Asker>(st.asker), result);
  if (st.waiting.weights) start(self);
}

void slice(Self self) {
  auto& st = self->state;
  if (!st.job.weights) return;
  try {
    for (int i = 0; i < kStepsPerSlice && !complete(st); ++i) {
      play_step(st);
      TROUPE_CHECK(st.failures <= kMaxFailures, st.failures, "environment failures in one evaluation");
    }
  } catch (const std::exception& e) {
    finish(self, failed(st, e.what()));
    return;
  }
  if (complete(st)) {
    finish(self, summarize(st));
  } else {
    self->send(self, next_atom_v);
  }
}

}  // namespace

EvaluatorActor::behavior_type evaluator(Self self, WiringPtr wiring, StatsActor stats) {
  guard(self);
  self->state.wiring = wiring;
  self->state.stats = stats;
  return {
      [self](const EvaluateMessage& job) {
        auto& st = self->state;
        if (st.waiting.weights && st.waiting.last) return;  // nothing comes after the last one
        st.waiting = job;
        st.next_asker = self->current_sender();
        if (!st.job.weights) start(self);
      },
      [self](next_atom) { slice(self); },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
