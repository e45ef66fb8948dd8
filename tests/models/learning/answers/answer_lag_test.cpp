// The figures of the lag of a token run: the policy at the start of an update against those that sampled its tokens.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/answer_parts.h"
#include "tests/support/torch_test.h"

#include "tests/models/learning/answers/lagged.h"
#include "tests/models/learning/answers/torch_answers.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The means of log p_rollout - log p_start, and of its exponential's inverse, in float64, over tokens with these lags.
std::pair<double, double> plain(const AnswerBatch& batch, const std::vector<double>& start, int64_t low, int64_t high) {
  double kl = 0, ratio = 0, n = 0;
  for (size_t t = 0; t < start.size(); ++t) {
    const auto lag = static_cast<int64_t>(batch.index) - batch.versions[t];
    if (lag < low || lag > high) continue;
    kl += double{batch.log_probs[t]} - start[t];
    ratio += std::exp(start[t] - double{batch.log_probs[t]});
    n += 1;
  }
  return {kl / n, ratio / n};
}

}  // namespace

TEST_CASE("answer_lag: without a lag the KL is exactly 0 and every ratio exactly 1, in any number of steps and parts") {
  for (const LmFamily family : kFamilies)
    for (const int64_t minibatches : {1, 3})
      for (const int64_t micro : {0, 9}) {
        const LmShape shape = tiny_shape(family, 3);
        const auto learner = make_answer_learner(config_of(minibatches, 2), shape, options_of(micro));
        for (uint64_t update = 0; update < 2; ++update) {
          const RolloutPtr rollout = sampled_with(shape, *learner, update);
          const auto metrics = learner->update(*staged(*learner, {&rollout, 1}, update), 0).metrics;
          for (const std::string of : {"", "_lag_0"}) {
            CHECK(metrics.at("rollout_kl" + of) == 0.0);
            for (const char* which : {"mean", "min", "max"})
              CHECK(metrics.at(std::string("rollout_ratio_") + which + of) == 1.0);
          }
          CHECK(metrics.at("rollout_share_lag_0") == 1.0);
          CHECK(metrics.at("rollout_lag_max") == 0.0);
          CHECK_FALSE(metrics.contains("rollout_kl_lag_1"));
          CHECK_FALSE(metrics.contains("rollout_rejected"));
        }
      }
}

TEST_CASE("answer_lag: with lags of 1, 4 and 16 the figures are those of a recomputation in float64") {
  torch::set_num_threads(1);
  for (const LmFamily family : kFamilies) {
    double least = 1e-3;  // of the lag before; the signs of the KL of few tokens differ, so it need not grow itself
    for (const uint64_t lag : {1, 4, 16}) {
      CAPTURE(lag);
      const LmShape shape = tiny_shape(family, 3);
      const auto learner = make_answer_learner(config_of(1), shape, options_of(40));
      const std::vector<RolloutPtr> before = train_until(shape, *learner, lag);
      const auto batch = staged(*learner, {before.data(), 1}, lag);
      const std::vector<double> start = batch_log_probs(shape, parameters_of(learner->save().model),
                                                        dynamic_cast<AnswerBatch&>(*batch), kTemperature);
      const auto [kl, ratio] = plain(dynamic_cast<AnswerBatch&>(*batch), start, 0, 100);
      const auto metrics = learner->update(*batch, 0).metrics;
      double distance = 0;
      for (size_t t = 0; t < start.size(); ++t)
        distance +=
            std::abs(dynamic_cast<AnswerBatch&>(*batch).log_probs[t] - start[t]) / static_cast<double>(start.size());
      CHECK(distance > least);
      least = distance;
      CHECK(std::abs(kl) > 1e-4);
      CHECK(std::abs(metrics.at("rollout_kl") - kl) < 1e-6 * std::max(1.0, std::abs(kl)));
      CHECK(std::abs(metrics.at("rollout_ratio_mean") - ratio) < 1e-5 * std::max(1.0, ratio));
      CHECK(metrics.at("rollout_kl_lag_" + std::to_string(lag_class(lag))) == metrics.at("rollout_kl"));
      CHECK(metrics.at("rollout_lag_mean") == static_cast<double>(lag));
    }
  }
}

TEST_CASE("answer_lag: tokens of several policies are told apart by their versions") {
  torch::set_num_threads(1);
  const LmShape shape = tiny_shape(LmFamily::llama, 3);
  const auto learner = make_answer_learner(config_of(1), shape, options_of());
  std::vector<RolloutPtr> rollouts = train_until(shape, *learner, 6);
  rollouts.push_back(sampled_with(shape, *learner, 6));
  const std::vector<RolloutPtr> mixed = {rollouts[6], rollouts[5], rollouts[2], rollouts[0]};  // lags 0, 1, 4 and 6
  const auto batch = staged(*learner, mixed, 6);
  const auto& answers = dynamic_cast<AnswerBatch&>(*batch);
  const std::vector<double> start = batch_log_probs(shape, parameters_of(learner->save().model), answers, kTemperature);
  const auto metrics = learner->update(*batch, 0).metrics;
  CHECK(metrics.at("rollout_kl_lag_0") == 0.0);
  CHECK(metrics.at("rollout_ratio_max_lag_0") == 1.0);
  for (const int64_t lag : {1, 4, 6}) {
    const auto [kl, ratio] = plain(answers, start, lag, lag);
    CHECK(std::abs(metrics.at("rollout_kl_lag_" + std::to_string(lag)) - kl) < 1e-6);
    CHECK(std::abs(metrics.at("rollout_ratio_mean_lag_" + std::to_string(lag)) - ratio) < 1e-5);
  }
  CHECK(metrics.at("rollout_share_lag_0") == 0.25);
  CHECK(metrics.at("rollout_share_lag_4") == 0.25);
  CHECK(metrics.at("rollout_share_lag_6") == 0.25);
  CHECK_FALSE(metrics.contains("rollout_kl_lag_2"));
  CHECK(metrics.at("rollout_lag_max") == 6.0);
}

TEST_CASE("answer_lag: with several minibatches the figures are those of the first one, unless the start is computed") {
  const LmShape shape = tiny_shape(LmFamily::qwen2, 3);
  for (const bool vtrace : {false, true}) {
    LearnerConfig config = config_of(2);
    LmModel model = shape;
    if (vtrace) {
      config.algorithm.advantage = "vtrace";
      model.critic = CriticKind::shared;
    }
    const auto learner = make_answer_learner(config, model, options_of());
    const std::vector<RolloutPtr> before = train_until(shape, *learner, 1);
    const auto batch = staged(*learner, before, 1);
    const auto& answers = dynamic_cast<AnswerBatch&>(*batch);
    const std::vector<double> start =
        batch_log_probs(shape, parameters_of(learner->save().model), answers, kTemperature);
    const auto minibatches =
        answer_minibatches(answers, 2, derive_key(derive_key(config.seed, "shuffle"), "epoch", 1, 0));
    double kl = 0, n = 0;
    for (int64_t g = 0; g < answers.groups(); ++g) {
      if (!vtrace && std::ranges::find(minibatches[0], g) == minibatches[0].end()) continue;
      for (int64_t t = answers.first_token(g); t < answers.first_token(g + 1); ++t, n += 1)
        kl += double{answers.log_probs[static_cast<size_t>(t)]} - start[static_cast<size_t>(t)];
    }
    CHECK(std::abs(learner->update(*batch, 0).metrics.at("rollout_kl") - kl / n) < 1e-6);
  }
}
