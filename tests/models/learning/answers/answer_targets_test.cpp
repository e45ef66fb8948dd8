// Advantages and value targets of answers against plain loops.

#include "models/learning/answers/answer_targets.h"

#include <algorithm>
#include <cmath>

#include "algorithms/choice/algorithm_config.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

AlgorithmConfig config_of(const std::string& advantage) {
  AlgorithmConfig config;
  config.advantage = advantage;
  config.normalize_advantages = false;
  config.gamma = 0.9;
  config.lambda = 0.8;
  return config;
}

AnswerStart random_start(const AnswerBatch& batch, bool final_values) {
  Rng rng(derive_key(7, "start"));
  AnswerStart start;
  for (size_t t = 0; t < batch.tokens.size(); ++t) {
    start.values.push_back(rng.normal());
    start.log_probs.push_back(batch.log_probs[t] + 0.5f * rng.normal());
  }
  for (int64_t a = 0; final_values && a < batch.answers(); ++a) start.final_values.push_back(rng.normal());
  return start;
}

// The value after token t of answer a: 0 behind its end, unless it was cut there.
double next_value(const AnswerBatch& batch, const AnswerStart& start, size_t a, int64_t t) {
  if (t + 1 < batch.offsets[a + 1]) return start.values[static_cast<size_t>(t + 1)];
  return !start.final_values.empty() && batch.cut[a] != 0 ? start.final_values[a] : 0.0f;
}

}  // namespace

TEST_CASE("answer_targets: gae takes tokens as steps, the reward at the last one, and a value after it only if cut") {
  const auto batch = gather_answers(whole(random_answers(7, 30, 3)));
  CHECK(std::ranges::count(batch->cut, 1) > 0);
  CHECK(std::ranges::count(batch->cut, 0) > 0);
  const AlgorithmConfig config = config_of("gae");
  const AlgorithmChoice choice = choose_algorithm(config);
  for (const bool bootstrap : {false, true}) {
    const AnswerStart start = random_start(*batch, bootstrap);
    const AnswerTargets targets = answer_targets(choice, config, {}, *batch, start);
    CHECK(targets.values == start.values);
    for (size_t a = 0; a < batch->rewards.size(); ++a) {
      double advantage = 0;
      for (int64_t t = batch->offsets[a + 1]; t-- > batch->offsets[a];) {
        const auto at = static_cast<size_t>(t);
        const double reward = t + 1 == batch->offsets[a + 1] ? batch->rewards[a] : 0.0;
        advantage = reward + 0.9 * next_value(*batch, start, a, t) - start.values[at] + 0.9 * 0.8 * advantage;
        CHECK(targets.advantages[at] == doctest::Approx(advantage).epsilon(1e-5).scale(1));
        CHECK(targets.returns[at] == doctest::Approx(advantage + start.values[at]).epsilon(1e-5).scale(1));
      }
    }
  }
}

TEST_CASE("answer_targets: vtrace weighs the steps by clipped ratios of the start to the sampling policy") {
  const auto batch = gather_answers(whole(random_answers(7, 30, 4)));
  const AlgorithmConfig config = config_of("vtrace");
  for (const bool bootstrap : {false, true}) {
    const AnswerStart start = random_start(*batch, bootstrap);
    const AnswerTargets targets = answer_targets(choose_algorithm(config), config, {}, *batch, start);
    for (size_t a = 0; a < batch->rewards.size(); ++a) {
      double above = 0, next_target = 0;  // v_{t+1} - V_{t+1}, and v_{t+1}
      for (int64_t t = batch->offsets[a + 1]; t-- > batch->offsets[a];) {
        const auto at = static_cast<size_t>(t);
        const bool last = t + 1 == batch->offsets[a + 1];
        const double rho = std::min(1.0, std::exp(double{start.log_probs[at]} - batch->log_probs[at]));
        const double reward = last ? batch->rewards[a] : 0.0, next = next_value(*batch, start, a, t);
        const double advantage = reward + 0.9 * (last ? next : next_target) - start.values[at];
        above = rho * (reward + 0.9 * next - start.values[at]) + 0.9 * 0.8 * rho * above;
        next_target = start.values[at] + above;
        CHECK(targets.advantages[at] == doctest::Approx(advantage).epsilon(1e-5).scale(1));
        CHECK(targets.returns[at] == doctest::Approx(next_target).epsilon(1e-5).scale(1));
      }
    }
  }
}

TEST_CASE("answer_targets: remax subtracts the score of the greedy answer of the group, clipped as scores are") {
  const auto rollout = random_answers(5, 30, 6);
  auto with = std::make_shared<Rollout>(*rollout);
  const std::vector<float> baselines{0.25f, -3, 0, 1, 0.5f};
  with->answers().baselines = array_of(baselines);
  // Groups of two rollouts, in another order.
  const SuperBatch super{.parts = {{with, {1, 3}, UnitKind::group}, {with, {0}, UnitKind::group}}};
  const auto batch = gather_answers(super);
  CHECK(batch->baselines == std::vector<float>{-3, 1, 0.25f});
  AlgorithmConfig config = config_of("remax");
  for (const double clip : {0.0, 0.4}) {
    config.reward_clip = clip;
    const auto clipped = [&](float score) { return clip > 0 ? std::clamp(double{score}, -clip, clip) : double{score}; };
    const AnswerTargets targets = answer_targets(choose_algorithm(config), config, {}, *batch, {});
    for (int64_t g = 0; g < batch->groups(); ++g)
      for (int64_t a = batch->group_offsets[static_cast<size_t>(g)];
           a < batch->group_offsets[static_cast<size_t>(g) + 1]; ++a) {
        const auto answer = static_cast<size_t>(a);
        const double advantage = clipped(batch->rewards[answer]) - clipped(batch->baselines[static_cast<size_t>(g)]);
        for (int64_t t = batch->offsets[answer]; t < batch->offsets[answer + 1]; ++t)
          CHECK(targets.advantages[static_cast<size_t>(t)] == doctest::Approx(advantage).epsilon(1e-6));
      }
  }
}

TEST_CASE("answer_targets: whitened advantages have mean 0, and lambda 0 and 1 differ") {
  const auto batch = gather_answers(whole(random_answers(7, 30, 3)));
  AlgorithmConfig config = config_of("gae");
  config.normalize_advantages = true;
  std::vector<std::vector<float>> advantages;
  for (const double lambda : {0.0, 1.0}) {
    config.lambda = lambda;
    const AnswerTargets targets =
        answer_targets(choose_algorithm(config), config, {}, *batch, random_start(*batch, false));
    const Moments after = masked_moments(targets.advantages, {});
    CHECK(std::abs(after.mean) < 1e-6);
    CHECK(after.stddev() == doctest::Approx(1).epsilon(1e-3));
    CHECK(targets.figures.advantages.stddev() != doctest::Approx(1).epsilon(1e-3));
    advantages.push_back(targets.advantages);
  }
  CHECK(advantages[0] != advantages[1]);
}

TEST_CASE(
    "answer_targets: the reward of a token is minus the KL of its sample, and the clipped score at the last one") {
  auto rollout = random_answers(7, 30, 3);
  for (float& reward : rollout->answers().rewards.mutable_view<float>()) reward = 3 * reward - 1;
  const auto batch = gather_answers(whole(rollout));
  AlgorithmConfig config = config_of("gae");
  config.gamma = config.lambda = 0;  // the advantage is the reward, with values of 0
  config.reward_clip = 1.5;
  AnswerStart start;
  start.values.resize(batch->tokens.size());
  Rng rng(derive_key(7, "reference"));
  for (const float log_prob : batch->log_probs) start.reference.push_back(log_prob + 0.4f * rng.normal());
  const auto estimate = [](KlKind kind, double d) {
    switch (kind) {
      case KlKind::k1: return d;
      case KlKind::abs: return std::abs(d);
      case KlKind::k2: return d * d / 2;
      default: return std::exp(-d) + d - 1;
    }
  };
  for (const KlKind kind : {KlKind::k1, KlKind::abs, KlKind::k2, KlKind::k3, KlKind::low_var_kl})
    for (const bool in_reward : {true, false}) {
      const ReferencePenalty penalty{.kl = {kind, false}, .coef = 0.3, .in_reward = in_reward};
      const AnswerTargets targets = answer_targets(choose_algorithm(config), config, penalty, *batch, start);
      double sum = 0;
      for (size_t a = 0; a < batch->rewards.size(); ++a)
        for (int64_t t = batch->offsets[a]; t < batch->offsets[a + 1]; ++t) {
          const auto at = static_cast<size_t>(t);
          const double kl = estimate(kind, double{batch->log_probs[at]} - start.reference[at]);
          const double score = t + 1 == batch->offsets[a + 1] ? std::clamp<double>(batch->rewards[a], -1.5, 1.5) : 0.0;
          CHECK(targets.advantages[at] == doctest::Approx(score - (in_reward ? 0.3 * kl : 0)).epsilon(1e-5).scale(1));
          sum += kl;
        }
      CHECK(targets.figures.reference->kl ==
            doctest::Approx(sum / static_cast<double>(batch->tokens.size())).epsilon(1e-5).scale(1));
      CHECK(targets.figures.reference->coef == 0.3);
      CHECK(targets.reference.empty() == in_reward);
      CHECK(targets.reference_coef == (in_reward ? 0 : 0.3));
    }
}

TEST_CASE("answer_targets: only what an estimator reads is computed at the start of an update") {
  const auto needs = [](const std::string& advantage, bool critic, bool bootstrap) {
    AlgorithmConfig config = config_of(advantage);
    config.bootstrap_cut_answers = bootstrap;
    return needs_of(choose_algorithm(config), config, critic, false);
  };
  CHECK_FALSE(needs("grpo", false, false).any());
  CHECK_FALSE(needs("gae", true, false).policy);
  CHECK(needs("gae", true, false).values);
  CHECK_FALSE(needs("gae", true, false).final_values);
  CHECK(needs("gae", true, true).final_values);
  CHECK(needs("vtrace", true, false).policy);
  CHECK_FALSE(needs("vtrace", true, false).squared);
  CHECK(needs("optimal_token_baseline", false, false).squared);
}
