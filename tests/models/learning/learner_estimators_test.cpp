#include <algorithm>
#include <cmath>

#include "algorithms/advantages/advantages.h"
#include "algorithms/advantages/gae.h"
#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/losses/surrogate.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("learner: on-policy V-trace with lambda 1 trains like GAE, whatever values the workers stored") {
  RunConfig config = small_config();
  config.algorithm.lambda = 1.0;
  Pair pair(config, discrete_spec());
  auto rollout = random_rollout(pair.spec, *pair.policy, 12, 3, 1, /*log_prob_noise=*/0.0f);
  rollout->grid().terminated.mutable_view<uint8_t>()[4 * 3 + 1] = 1;
  rollout->grid().truncated.mutable_view<uint8_t>()[6 * 3 + 2] = 1;
  // The values after the last step and at the truncation are those of the policy, as a worker stores them.
  rollout->grid().last_observations.set("state", random_array({3, 5}, 50));
  rollout->grid().final_observations.set("state", random_array({1, 5}, 51));
  rollout->grid().final_steps = Array::of<int32_t>({1, 2}, {6, 2});
  const auto next = rollout->grid().next_values.mutable_view<float>();
  for (int64_t i = 0; i + 3 < rollout->grid().values.size(); ++i) next[i] = rollout->grid().values.view<float>()[i + 3];
  const Array last = pair.policy->values(rollout->grid().last_observations),
              cut = pair.policy->values(rollout->grid().final_observations);
  std::ranges::copy(last.view<float>(), next.end() - 3);
  next[6 * 3 + 2] = cut.view<float>()[0];
  GaeInput in;
  in.steps = 12;
  in.sequences = 3;
  in.rewards = rollout->grid().rewards.view<float>();
  in.values = rollout->grid().values.view<float>();
  in.next_values = rollout->grid().next_values.view<float>();
  in.terminated = rollout->grid().terminated.view<uint8_t>();
  in.truncated = rollout->grid().truncated.view<uint8_t>();
  in.gamma = static_cast<float>(config.algorithm.gamma);
  in.lambda = static_cast<float>(config.algorithm.lambda);
  gae(in, rollout->grid().advantages.mutable_view<float>(), rollout->grid().returns.mutable_view<float>());
  const UpdateReport by_gae = update_with(*pair.learner, whole_batch(rollout));

  // V-trace computes the values itself, so the stored ones must have no effect.
  for (float& x : rollout->grid().next_values.mutable_view<float>()) x = 1e6f;
  for (float& x : rollout->grid().values.mutable_view<float>()) x = -1e6f;
  config.algorithm.advantage = "vtrace";
  const auto learner = make_learner(config, pair.spec);
  const UpdateReport by_vtrace = update_with(*learner, whole_batch(rollout));
  for (const char* name : {"advantage_mean", "advantage_std", "return_mean", "return_std", "value_loss",
                           "explained_variance", "grad_norm"})
    CHECK(by_vtrace.metrics.at(name) == doctest::Approx(by_gae.metrics.at(name)).epsilon(1e-4));
  const auto x = pair.learner->save().optimizer, y = learner->save().optimizer;
  for (const auto& [name, moment] : x)
    for (int64_t i = 0; i < moment.size(); ++i)
      CHECK(y.at(name).view<float>()[i] == doctest::Approx(moment.view<float>()[i]).epsilon(1e-3).scale(1e-4));
}

namespace {

EnvSpec with_tasks(EnvSpec spec) {
  spec.tasks = {"one", "two"};
  return spec;
}

}  // namespace

TEST_CASE("learner: any size of micro-batch gives the gradient of the minibatch, for every aggregation") {
  const auto config_of = [](auto change) {
    RunConfig config = small_config();
    config.algorithm.entropy_coef = 0.02;
    change(config.algorithm);
    return config;
  };
  const std::vector<RunConfig> configs = {
      config_of([](AlgorithmConfig& a) { a.surrogate = "gspo"; }),
      config_of([](AlgorithmConfig& a) { a.surrogate = "geo_mean"; }),
      config_of([](AlgorithmConfig& a) { a.surrogate = "gspo", a.ratio = "per_dimension"; }),
      config_of([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-mean"; }),
      config_of([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-sum"; }),
      config_of([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-sum-norm"; }),
      config_of([](AlgorithmConfig& a) { a.kl = "k2", a.kl_coef = 0.3; }),
      config_of([](AlgorithmConfig& a) {
        a.rollout_correction = R"({"is": "sequence", "rejection": "token_k1", "rejection_threshold": "0.8_1.25"})";
        a.aggregation = "seq-mean-token-mean";
      }),
  };
  for (RunConfig config : configs) {
    CAPTURE(config.algorithm.surrogate);
    CAPTURE(config.algorithm.aggregation);
    CAPTURE(config.algorithm.rollout_correction);
    Pair whole(config, token_spec());
    const SuperBatch batch = episodes_batch(whole, 1);
    const UpdateReport a = update_with(*whole.learner, batch);
    CHECK(a.steps == 1);
    for (int64_t size : {1, 5, 30}) {
      config.trainer.micro_batch = size;
      Pair micro(config, token_spec());
      const UpdateReport b = update_with(*micro.learner, batch);
      const LearnerState x = whole.learner->save(), y = micro.learner->save();
      for (const auto& [name, moment] : x.optimizer) {
        const auto p = moment.view<float>(), q = y.optimizer.at(name).view<float>();
        float largest = 0, difference = 0;
        for (size_t i = 0; i < p.size(); ++i) {
          largest = std::max(largest, std::abs(p[i]));
          difference = std::max(difference, std::abs(p[i] - q[i]));
        }
        CAPTURE(name);
        CHECK(difference <= 1e-5f * largest + 1e-9f);
      }
      for (const char* name :
           {"policy_loss", "value_loss", "entropy", "kl", "ess", "ess_clamped", "ratio_mean", "ratio_max", "ratio_min"})
        CHECK(a.metrics.at(name) == doctest::Approx(b.metrics.at(name)).epsilon(1e-4));
    }
  }
}

TEST_CASE("learner: a step with any estimator and any surrogate changes the policy, and is reproducible") {
  std::vector<RunConfig> configs;
  for (const AdvantageEntry& entry : advantage_table()) {
    configs.push_back(small_config());
    configs.back().algorithm.advantage = entry.name;
  }
  for (const SurrogateEntry& entry : surrogate_table()) {
    configs.push_back(small_config());
    configs.back().algorithm.surrogate = entry.name;
  }
  for (RunConfig config : configs) {
    for (const char* ratio : {"joint", "per_dimension"}) {
      config.algorithm.ratio = ratio;
      CAPTURE(config.algorithm.advantage);
      CAPTURE(config.algorithm.surrogate);
      CAPTURE(ratio);
      Pair pair(config, token_spec()), again(config, token_spec());
      const auto before = pair.learner->save().model;
      const UpdateReport report = update_with(*pair.learner, episodes_batch(pair, 3));
      CHECK(report.steps == 1);
      CHECK(pair.learner->save().model.at("policy.head.weight") != before.at("policy.head.weight"));
      update_with(*again.learner, episodes_batch(pair, 3));
      CHECK(same_model(*pair.learner, *again.learner));
    }
  }
}

TEST_CASE("learner: estimates that the trainer computes are not read from rollouts") {
  for (const AdvantageEntry& entry : advantage_table()) {
    CAPTURE(entry.name);
    RunConfig config = small_config();
    config.algorithm.advantage = entry.name;
    const RolloutExtras extras = rollout_extras(config.algorithm);
    Pair with(config, token_spec()), without(config, token_spec());
    const SuperBatch batch = episodes_batch(with, 3);
    auto bare = std::make_shared<Rollout>(*batch.parts[0].rollout);
    if (!extras.advantages) bare->grid().advantages = {};
    if (!extras.returns) bare->grid().returns = {};
    CHECK(update_with(*with.learner, batch).steps == 1);
    CHECK(update_with(*without.learner, whole_batch(bare)).steps == 1);
    CHECK(same_model(*with.learner, *without.learner));
    for (auto member : {&Grid::advantages, &Grid::returns}) {
      if ((bare->grid().*member).empty()) continue;
      auto lacking = std::make_shared<Rollout>(*bare);
      lacking->grid().*member = {};
      CHECK_THROWS_AS(with.learner->stager()->stage(whole_batch(lacking)), InvariantError);
    }
  }
}

TEST_CASE("learner: with algorithm.incomplete \"drop\" sequences without a terminal state are not trained on") {
  RunConfig config = small_config();
  config.algorithm.advantage = "grpo";
  config.algorithm.incomplete = "drop";
  Pair pair(config, discrete_spec());
  CHECK(update_with(*pair.learner, episodes_batch(pair, 1)).steps == 1);
  const LearnerState before = pair.learner->save();
  const UpdateReport report = update_with(*pair.learner, pair.batch(1));  // no episode ends
  CHECK(report.empty());
  CHECK_FALSE(report.failed());
  CHECK(report.epochs == 0);
  for (const char* name : {"advantage_mean", "return_mean", "explained_variance"})
    CHECK_FALSE(report.metrics.contains(name));
  CHECK((pair.learner->save().model == before.model));
  CHECK((pair.learner->save().optimizer == before.optimizer));
}

TEST_CASE("learner: with group_by \"task\" only sequences of the same task are compared") {
  RunConfig config = small_config();
  config.algorithm.advantage = "grpo";
  Pair batch(config, with_tasks(discrete_spec()));
  config.algorithm.group_by = "task";
  Pair task(config, with_tasks(discrete_spec()));
  const SuperBatch super_batch = episodes_batch(task, 1);
  const UpdateReport a = update_with(*batch.learner, super_batch), b = update_with(*task.learner, super_batch);
  CHECK(a.metrics.at("advantage_std") != b.metrics.at("advantage_std"));
  CHECK_THROWS_WITH_AS(make_learner(config, discrete_spec()),
                       "algorithm.group_by: \"task\", but made-up has no tasks; use \"batch\"", ConfigError);
}

TEST_CASE("learner: an estimator that needs probabilities of categories refuses continuous actions") {
  RunConfig config = small_config();
  config.algorithm.advantage = "optimal_token_baseline";
  CHECK_THROWS_WITH_AS(make_learner(config, continuous_spec()),
                       "algorithm.advantage: \"optimal_token_baseline\" needs probabilities of categories, but the "
                       "actions of made-up are continuous",
                       ConfigError);
}

TEST_CASE("learner: with rollout correction, ratios are relative to the policy at the start of the update") {
  RunConfig config = small_config();
  config.algorithm.rollout_correction = R"({"is": "token", "is_threshold": 1.1})";
  Pair pair(config, discrete_spec());
  const UpdateReport report = update_with(*pair.learner, episodes_batch(pair, 1, 0.5f));
  CHECK(report.metrics.at("kl") == doctest::Approx(0.0).epsilon(1e-9));  // in the only step the ratio is 1
  CHECK(report.metrics.at("rollout_kl_k3") > 0.01);
  CHECK(report.metrics.at("rollout_weight_max") > 1.1);
}

TEST_CASE("learner: an adaptive KL coefficient follows the KL and is saved") {
  RunConfig config = small_config();
  config.algorithm.kl_coef = 0.5;
  config.algorithm.kl_controller = "adaptive";
  config.algorithm.kl_target = 1e-6;
  config.algorithm.kl_horizon = 10'000;
  Pair pair(config, discrete_spec());
  const SuperBatch batch = episodes_batch(pair, 1);
  CHECK(update_with(*pair.learner, batch).metrics.at("kl_coef") == 0.5);
  // The change depends on the samples of the update, not on trainer.super_batch.
  REQUIRE(batch.samples != static_cast<uint64_t>(config.trainer.super_batch));
  const double raised = 0.5 * (1 + 0.2 * static_cast<double>(batch.samples) / 10'000);
  CHECK(update_with(*pair.learner, batch).metrics.at("kl_coef") == doctest::Approx(raised));
  const auto other = make_learner(config, pair.spec);
  other->load(pair.learner->save());
  CHECK(update_with(*other, batch).metrics == update_with(*pair.learner, batch).metrics);
}
