// The figures by policy lag of runs on environments, recomputed from the super-batch in plain loops in float64.

#include "models/learning/lag_metrics.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kSteps = 40, kColumns = 8, kSamples = kSteps * kColumns, kUpdate = 20;
constexpr double kClip = 0.2;

// Samples of versions kUpdate - lag, with lags from 0 to `most`.
std::shared_ptr<Rollout> lagged_rollout(const Pair& pair, uint64_t most) {
  auto rollout = random_rollout(pair.spec, *pair.policy, kSteps, kColumns, 3);
  rollout->grid().version = Array(DType::i64, {kSteps, kColumns});
  Rng rng(derive_key(4, "lags"));
  for (int64_t& version : rollout->grid().version.mutable_view<int64_t>())
    version = kUpdate - static_cast<int64_t>(rng.below(most + 1));
  return rollout;
}

SuperBatch batch_of(std::shared_ptr<Rollout> rollout) {
  SuperBatch batch = whole_batch(std::move(rollout));
  batch.index = kUpdate;
  return batch;
}

RunConfig plain_config() {
  RunConfig config = small_config();
  config.model.activation = "tanh";
  config.model.shared_trunk = false;
  config.model.normalize_observations = false;
  config.model.normalize_returns = false;
  config.algorithm.clip_low = config.algorithm.clip_high = kClip;
  return config;
}

std::vector<double> linear(const LearnerState& state, const std::string& name, const std::vector<double>& x) {
  const auto weight = state.model.at(name + ".weight").view<float>(),
             bias = state.model.at(name + ".bias").view<float>();
  std::vector<double> result(bias.begin(), bias.end());
  for (size_t i = 0; i < result.size(); ++i)
    for (size_t j = 0; j < x.size(); ++j) result[i] += double{weight[i * x.size() + j]} * x[j];
  return result;
}

// What a network says of a sample.
std::vector<double> outputs_of(const LearnerState& state, const std::string& net, const Rollout& rollout,
                               int64_t sample) {
  const auto all = rollout.grid().observations.at("state").view<float>().subspan(static_cast<size_t>(5 * sample), 5);
  std::vector<double> x(all.begin(), all.end());
  for (const char* layer : {".0", ".1"}) {
    x = linear(state, net + layer, x);
    for (double& value : x) value = std::tanh(value);
  }
  return linear(state, net + ".head", x);
}

double log_prob_of(const LearnerState& state, const Rollout& rollout, int64_t sample) {
  const std::vector<double> logits = outputs_of(state, "policy", rollout, sample);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  return logits[static_cast<size_t>(rollout.grid().actions.view<int32_t>()[sample])] - std::log(sum);
}

// Checks the figures of every lag against those of the tokens with it: `state` has the weights of the step, and
// `advantages` need only the right sign.
void check_lags(const std::map<std::string, double>& metrics, const LearnerState& state, const Rollout& rollout,
                const std::vector<double>& advantages) {
  for (int64_t lag = 0; lag < static_cast<int64_t>(kLagClasses); ++lag) {
    CAPTURE(lag);
    double n = 0, k3 = 0, w = 0, w2 = 0, clipped = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      if (std::min<int64_t>(kUpdate - rollout.grid().version.view<int64_t>()[i], 8) != lag) continue;
      const double d = log_prob_of(state, rollout, i) - double{rollout.grid().log_probs.view<float>()[i]};
      const double r = std::exp(d), a = advantages[static_cast<size_t>(i)];
      n += 1, k3 += r - 1 - d, w += r, w2 += r * r;
      clipped += (a > 0 && r > 1 + kClip) || (a < 0 && r < 1 - kClip);
    }
    const std::string at = "_lag_" + std::to_string(lag);
    REQUIRE(n > 0);
    CHECK(std::abs(metrics.at("share" + at) - n / kSamples) < 1e-12);
    CHECK(std::abs(metrics.at("kl" + at) - k3 / n) < 1e-6);
    CHECK(std::abs(metrics.at("ess" + at) - w * w / (n * w2)) < 1e-6);
    CHECK(clipped > 0);
    CHECK(std::abs(metrics.at("clip_fraction" + at) - clipped / n) < 1e-12);
    CHECK(std::abs(metrics.at("dead_gradient_fraction" + at) - clipped / n) < 1e-12);
  }
}

// r + gamma v' - V of V-trace with lambda 1 and bounds of 1, without ends of episodes (Espeholt et al. 2018).
std::vector<double> vtrace_advantages(const RunConfig& config, const LearnerState& state, const Rollout& rollout) {
  const double gamma = config.algorithm.gamma;
  std::vector<double> result(kSamples);
  for (int64_t column = 0; column < kColumns; ++column) {
    double target = rollout.grid().next_values.view<float>()[(kSteps - 1) * kColumns + column], next = target;
    for (int64_t step = kSteps - 1; step >= 0; --step) {
      const int64_t i = step * kColumns + column;
      const double value = outputs_of(state, "value", rollout, i)[0], reward = rollout.grid().rewards.view<float>()[i];
      const double d = log_prob_of(state, rollout, i) - double{rollout.grid().log_probs.view<float>()[i]};
      const double rho = std::min(1.0, std::exp(d));
      result[static_cast<size_t>(i)] = reward + gamma * target - value;
      target = value + rho * (reward + gamma * next - value) + gamma * rho * (target - next);
      next = value;
    }
  }
  return result;
}

}  // namespace

TEST_CASE("lag_metrics: PPO of two epochs reports the second one, each lag as a recomputation in float64 does") {
  RunConfig config = plain_config();
  Pair one(config, discrete_spec());
  const auto rollout = lagged_rollout(one, 11);
  update_with(*one.learner, batch_of(rollout));  // gives the weights with which a second epoch begins
  config.trainer.epochs = 2;
  Pair two(config, discrete_spec());
  const UpdateReport report = update_with(*two.learner, batch_of(rollout));
  CHECK(report.steps == 2);
  const auto stored = rollout->grid().advantages.view<float>();
  double mean = 0;
  for (const float advantage : stored) mean += double{advantage} / kSamples;
  std::vector<double> advantages;
  for (const float advantage : stored) advantages.push_back(advantage - mean);
  check_lags(report.metrics, one.learner->save(), *rollout, advantages);
}

TEST_CASE("lag_metrics: V-trace reports each lag as a recomputation in float64 does") {
  RunConfig config = plain_config();
  config.algorithm.advantage = "vtrace";
  config.algorithm.normalize_advantages = false;
  config.algorithm.lambda = config.algorithm.rho_bar = config.algorithm.c_bar = config.algorithm.pg_rho_bar = 1.0;
  Pair pair(config, discrete_spec());
  const auto rollout = lagged_rollout(pair, 11);
  const LearnerState start = pair.learner->save();
  const UpdateReport report = update_with(*pair.learner, batch_of(rollout));
  check_lags(report.metrics, start, *rollout, vtrace_advantages(config, start, *rollout));
}

TEST_CASE("lag_metrics: without a lag only lag 0 has figures, and they are those of all samples") {
  Pair pair(plain_config(), discrete_spec());
  const auto metrics = update_with(*pair.learner, batch_of(lagged_rollout(pair, 0))).metrics;
  CHECK(metrics.at("share_lag_0") == 1.0);
  for (const char* name : {"kl", "clip_fraction", "dead_gradient_fraction", "ess"})
    CHECK(metrics.at(std::string(name) + "_lag_0") == doctest::Approx(metrics.at(name)).epsilon(1e-12));
  for (const Metric& metric : loss_metrics_by_lag())
    CHECK(metrics.contains(std::string(metric.name)) == metric.name.ends_with("_lag_0"));
}

TEST_CASE("lag_metrics: the figures of all samples are the means of those by lag, in any steps and micro-batches") {
  RunConfig config = plain_config();
  config.trainer.epochs = 2;
  config.trainer.minibatches = 3;
  config.algorithm.ratio = "per_dimension";
  for (const int64_t size : {0, 7}) {
    config.trainer.micro_batch = size;
    Pair pair(config, token_spec());
    const auto metrics = update_with(*pair.learner, batch_of(lagged_rollout(pair, 3))).metrics;
    for (const char* name : {"kl", "clip_fraction", "dead_gradient_fraction"}) {
      double mean = 0, shares = 0;
      for (const char* lag : {"_lag_0", "_lag_1", "_lag_2", "_lag_3"}) {
        mean += metrics.at(std::string("share") + lag) * metrics.at(std::string(name) + lag);
        shares += metrics.at(std::string("share") + lag);
      }
      CHECK(shares == doctest::Approx(1.0).epsilon(1e-12));
      CHECK(metrics.at(name) == doctest::Approx(mean).epsilon(1e-9));
    }
  }
}

TEST_CASE("lag_metrics: rollouts without versions have no figures by lag") {
  Pair pair(plain_config(), discrete_spec());
  const auto metrics = update_with(*pair.learner, pair.batch(1)).metrics;
  for (const Metric& metric : loss_metrics_by_lag()) CHECK_FALSE(metrics.contains(std::string(metric.name)));
}
