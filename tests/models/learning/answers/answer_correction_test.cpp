// Corrections of the lag through the learner: loss, gradients and figures against a script in float64 with LibTorch's
// gradients, and plain loops for weights and rejections.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "tests/support/torch_test.h"

#include "tests/models/learning/answers/lagged.h"
#include "tests/models/learning/answers/torch_answers.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 2e-5, kClip = 0.2;

struct Case {
  const char* correction;
  const char* proximal = "computed";
};

LearnerConfig corrected(const Case& of, int64_t epochs) {
  LearnerConfig config = config_of(1, epochs);
  config.algorithm.advantage = "rloo";
  config.algorithm.rollout_correction = of.correction;
  config.algorithm.proximal = of.proximal;
  config.trainer.max_grad_norm = 0;
  config.trainer.adam_beta1 = 0;  // the first moment is the gradient of the last step
  return config;
}

// What the correction makes of the tokens of a batch, whose policies have these log-probabilities.
struct Plain {
  std::vector<double> weights;
  std::vector<bool> kept;
  double weight_mean = 0, rejected = 0;  // the former before the bounds

  Plain(const RolloutCorrection& correction, const AnswerBatch& batch, const std::vector<double>& proximal,
        const std::vector<double>& advantages)
      : weights(proximal.size(), 1.0), kept(proximal.size(), true) {
    for (size_t a = 0; a + 1 < batch.offsets.size(); ++a) {
      const auto first = static_cast<size_t>(batch.offsets[a]), end = static_cast<size_t>(batch.offsets[a + 1]);
      const auto log_ratio = [&](size_t t) { return proximal[t] - double{batch.log_probs[t]}; };
      double sum = 0;
      for (size_t t = first; t < end; ++t) sum += log_ratio(t);
      for (size_t t = first; t < end; ++t) {
        if (correction.level == WeightLevel::none) continue;
        const double w = std::exp(correction.level == WeightLevel::token ? log_ratio(t) : sum);
        const bool outside = w < correction.low || w > correction.high;
        weight_mean += w / static_cast<double>(proximal.size());
        weights[t] =
            correction.bound == WeightBound::zero && outside ? 0.0 : std::clamp(w, correction.low, correction.high);
      }
      for (const RejectionRule& rule : correction.rules) {
        const auto value = [&](size_t t) {
          const double l = log_ratio(t);
          return rule.statistic == RejectionRule::Statistic::k1   ? -l
                 : rule.statistic == RejectionRule::Statistic::k2 ? l * l / 2
                                                                  : std::exp(l) - 1 - l;
        };
        double total = 0, most = -1e30;
        for (size_t t = first; t < end; ++t) total += value(t), most = std::max(most, value(t));
        for (size_t t = first; t < end; ++t) {
          const double x = rule.over == RejectionRule::Over::token      ? value(t)
                           : rule.over == RejectionRule::Over::seq_sum  ? total
                           : rule.over == RejectionRule::Over::seq_mean ? total / static_cast<double>(end - first)
                                                                        : most;
          if (x < rule.low || x > rule.high) kept[t] = false;
        }
      }
      for (size_t t = first; t < end; ++t)
        if (-sum / static_cast<double>(end - first) > correction.opsm_delta && advantages[t] < 0) kept[t] = false;
    }
    normalize(correction, batch);
    rejected = static_cast<double>(std::ranges::count(kept, false)) / static_cast<double>(kept.size());
  }

  void normalize(const RolloutCorrection& correction, const AnswerBatch& batch) {
    if (!correction.batch_normalize) return;
    double sum = 0, n = 0;
    for (size_t a = 0; a + 1 < batch.offsets.size(); ++a)
      for (auto t = static_cast<size_t>(batch.offsets[a]); t < static_cast<size_t>(batch.offsets[a + 1]); ++t) {
        sum += weights[t], n += 1;
        if (correction.level == WeightLevel::sequence) break;
      }
    for (double& w : weights) w /= sum / n;
  }
};

// Of groups of three answers, each with its reward at its last token: reward minus the mean of the others'.
std::vector<double> advantages_of(const AnswerBatch& batch) {
  std::vector<double> result(batch.tokens.size());
  for (size_t a = 0; a < batch.rewards.size(); ++a) {
    const size_t group = a / 3 * 3;
    const double all = batch.rewards[group] + batch.rewards[group + 1] + batch.rewards[group + 2];
    for (auto t = static_cast<size_t>(batch.offsets[a]); t < static_cast<size_t>(batch.offsets[a + 1]); ++t)
      result[t] = batch.rewards[a] - (all - batch.rewards[a]) / 2;
  }
  return result;
}

torch::Tensor all_log_probs(const LmShape& shape, const Parameters& p, const AnswerBatch& batch) {
  std::vector<torch::Tensor> result;
  for (int64_t g = 0; g < batch.groups(); ++g)
    for (int64_t a = 3 * g; a < 3 * g + 3; ++a) {
      const auto at = [](int64_t i) { return static_cast<size_t>(i); };
      result.push_back(answer_log_probs(
          shape, p,
          {batch.prompts.begin() + batch.prompt_offsets[at(g)],
           batch.prompts.begin() + batch.prompt_offsets[at(g + 1)]},
          {batch.tokens.begin() + batch.offsets[at(a)], batch.tokens.begin() + batch.offsets[at(a + 1)]},
          kTemperature));
    }
  return torch::cat(result);
}

std::vector<double> proximal_of(const std::string& kind, const AnswerBatch& batch, const std::vector<double>& start,
                                const torch::Tensor& now) {
  std::vector<double> result = start;
  for (size_t t = 0; kind == "interpolated" && t < start.size(); ++t) {
    const auto lag = static_cast<double>(static_cast<int64_t>(batch.index) - batch.versions[t]);
    const double behind = lag < 1 ? 1.0 : 1 / lag;  // the share of the policy that sampled
    result[t] = behind * double{batch.log_probs[t]} + (1 - behind) * now[static_cast<int64_t>(t)].item<double>();
  }
  return result;
}

torch::Tensor loss_of(const Case& of, const RolloutCorrection& correction, const AnswerBatch& batch,
                      const std::vector<double>& start, const torch::Tensor& now, Plain& plain) {
  const std::vector<double> proximal = proximal_of(of.proximal, batch, start, now), advantages = advantages_of(batch);
  plain = Plain(correction, batch, proximal, advantages);
  torch::Tensor sum = torch::zeros({}, torch::kDouble);
  double count = 0;
  for (size_t t = 0; t < start.size(); ++t) {
    if (!plain.kept[t]) continue;
    const double old = std::string(of.proximal) == "rollout" ? double{batch.log_probs[t]} : proximal[t];
    const torch::Tensor ratio = torch::exp(now[static_cast<int64_t>(t)] - old);
    const torch::Tensor clipped = torch::clamp(ratio, 1 - kClip, 1 + kClip);
    sum = sum + plain.weights[t] * torch::max(-advantages[t] * ratio, -advantages[t] * clipped);
    count += 1;
  }
  return sum / count;
}

// A trained policy, and answers that it sampled 0, 1 and 3 updates ago.
struct Lagged {
  LmShape shape = tiny_shape(LmFamily::llama, 3);
  LearnerState state;
  std::vector<RolloutPtr> rollouts;

  Lagged() {
    LearnerConfig config = corrected({"{}"}, 1);
    config.trainer.policy_lr = 2e-2;
    const auto learner = make_answer_learner(config, shape, options_of());
    const std::vector<RolloutPtr> before = train_until(shape, *learner, 3);
    rollouts = {sampled_with(shape, *learner, 3), before[2], before[0]};
    state = learner->save();
  }
};

void check(const Lagged& lagged, const Case& of) {
  CAPTURE(of.correction);
  CAPTURE(of.proximal);
  const RolloutCorrection correction = *choose_algorithm(corrected(of, 1).algorithm).correction;
  std::map<std::string, Array> now = lagged.state.model;
  for (const int64_t epochs : {1, 2}) {
    const auto learner = make_answer_learner(corrected(of, epochs), lagged.shape, options_of(30));
    learner->load(lagged.state);
    const auto batch = staged(*learner, lagged.rollouts, 3);
    const auto& answers = dynamic_cast<AnswerBatch&>(*batch);
    const std::vector<double> start =
        batch_log_probs(lagged.shape, parameters_of(lagged.state.model), answers, kTemperature);
    const Parameters parameters = parameters_of(now);
    Plain plain({}, answers, start, advantages_of(answers));
    const torch::Tensor loss =
        loss_of(of, correction, answers, start, all_log_probs(lagged.shape, parameters, answers), plain);
    loss.backward();
    const UpdateReport report = learner->update(*batch, 0);
    CHECK(std::abs(report.metrics.at("policy_loss") - loss.item<double>()) < kTolerance);
    CHECK(report.metrics.at("rollout_rejected") == doctest::Approx(plain.rejected).epsilon(1e-12));
    if (correction.level != WeightLevel::none && epochs == 1)
      CHECK(report.metrics.at("rollout_weight_mean") == doctest::Approx(plain.weight_mean).epsilon(1e-5));
    const LearnerState state = learner->save();
    for (const auto& [name, parameter] : parameters) {
      CAPTURE(name);
      const std::span<const float> gradient = state.optimizer.at("first." + name).view<float>();
      REQUIRE(parameter.grad().defined());
      CHECK(difference(std::vector<float>(gradient.begin(), gradient.end()), parameter.grad()) < kTolerance);
    }
    now = state.model;
  }
}

}  // namespace

TEST_CASE("answer_correction: every weight has the loss, the gradient and the figures of a script in float64") {
  torch::set_num_threads(1);
  const Lagged lagged;
  for (const char* correction :
       {R"({"is": "token"})", R"({"is": "token", "is_threshold": 1.1})", R"({"is": "sequence"})",
        R"({"is": "token", "is_low": 0.8, "is_threshold": 1.3, "bound": "zero"})",
        R"({"is": "token", "batch_normalize": true})", R"({"is": "sequence", "batch_normalize": true})",
        R"({"is": "none"})"})
    check(lagged, {correction});
}

TEST_CASE("answer_correction: every rejection rule leaves the same tokens out of numerator and denominator") {
  torch::set_num_threads(1);
  const Lagged lagged;
  for (const auto& [rule, threshold] : {std::pair{"token_k1", "0.9_1.1"},
                                        {"token_k2", "0.005"},
                                        {"token_k3", "0.005"},
                                        {"seq_sum_k1", "0.8_1.2"},
                                        {"seq_sum_k2", "0.02"},
                                        {"seq_sum_k3", "0.02"},
                                        {"seq_mean_k1", "0.95_1.05"},
                                        {"seq_mean_k2", "0.005"},
                                        {"seq_mean_k3", "0.005"},
                                        {"seq_max_k2", "0.02"},
                                        {"seq_max_k3", "0.02"}}) {
    const std::string correction =
        R"({"is": "token", "rejection": ")" + std::string(rule) + R"(", "rejection_threshold": ")" + threshold + "\"}";
    check(lagged, {correction.c_str()});
  }
  check(lagged, {R"({"is": "none", "opsm_delta": 0.001})"});
}

TEST_CASE("answer_correction: ratios may be taken to the policy that sampled, with rejections alone") {
  torch::set_num_threads(1);
  const Lagged lagged;
  check(lagged, {R"({"is": "none"})", "rollout"});
  check(lagged, {R"({"is": "none", "rejection": "token_k1", "rejection_threshold": "0.9_1.1"})", "rollout"});
  check(lagged, {R"({"is": "none", "opsm_delta": 0.001})", "rollout"});
}

TEST_CASE("answer_correction: an interpolated proximal policy follows the lags of the tokens") {
  torch::set_num_threads(1);
  const Lagged lagged;
  check(lagged, {R"({"is": "token"})", "interpolated"});
  check(lagged, {R"({"is": "sequence", "is_threshold": 1.5})", "interpolated"});
  check(lagged, {R"({"is": "none"})", "interpolated"});
}

TEST_CASE("answer_correction: without a lag every weight is 1, and the update has the bits of one without correction") {
  const LmShape shape = tiny_shape(LmFamily::qwen3, 3);
  const auto updated = [&](const Case& of) {
    const auto learner = make_answer_learner(corrected(of, 2), shape, options_of());
    const RolloutPtr rollout = sampled_with(shape, *learner, 0);
    const UpdateReport report = learner->update(*staged(*learner, {&rollout, 1}, 0), 0);
    if (std::string(of.correction) != "{}") {
      CHECK(report.metrics.at("rollout_weight_min") == 1.0);
      CHECK(report.metrics.at("rollout_weight_max") == 1.0);
      CHECK(report.metrics.at("rollout_kl") == 0.0);
    }
    return learner->save().model;
  };
  const auto plain = updated({"{}"});
  for (const Case& of :
       {Case{R"({"is": "token"})"}, Case{R"({"is": "sequence"})"}, Case{R"({"is": "token"})", "interpolated"}}) {
    const bool equal = updated(of) == plain;
    CHECK(equal);
  }
}
