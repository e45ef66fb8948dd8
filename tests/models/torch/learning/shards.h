#pragma once
// A learner with several shards, and one that has the samples of all of them in one.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/torch_test.h"

#include "models/weights/model_weights.h"
#include "tests/models/shards/ranks.h"
#include "tests/models/torch/learning/forms.h"

namespace troupe::test {

inline RunConfig with_shards(RunConfig config, size_t shards) {
  config.trainer.shards = static_cast<int64_t>(shards);
  return config;
}

// Settings in which every kind of sum over shards occurs.
inline RunConfig shard_config() {
  RunConfig config = small_config();
  config.algorithm.normalize_advantages = true;
  config.algorithm.entropy_coef = 0.02;
  config.algorithm.kl_coef = 0.1;
  config.model.normalize_observations = config.model.normalize_returns = true;
  config.trainer.max_grad_norm = 0.1;
  config.trainer.epochs = 3;
  // Well above the gradients, so that a step is proportional to its gradient. Otherwise it is nearly the gradient's
  // sign: rounding errors of small gradients would show in full, a wrong factor not at all.
  config.trainer.adam_epsilon = 1;
  config.trainer.policy_lr = config.trainer.value_lr = 0.1;
  config.trainer.bucket_bytes = 400;  // several in these models
  return config;
}

inline std::shared_ptr<Rollout> rollout_of(const RunConfig& config, const EnvSpec& spec, int64_t steps, int64_t columns,
                                           uint64_t seed, float noise = 0.3f) {
  const auto policy = make_policy(config, spec);
  return random_rollout(spec, *policy, steps, columns, seed, noise);
}

// Both have the same weights.
struct Trainers {
  std::unique_ptr<Learner> sharded, whole;
  UpdateReport of_sharded, of_whole;

  Trainers(const RunConfig& config, const EnvSpec& spec, bool device_form, size_t shards = 2)
      : sharded(learner_of(with_shards(config, shards), spec, device_form)),
        whole(learner_of(config, spec, device_form)) {}

  void update(const std::vector<SuperBatch>& shards) {
    of_sharded = update_with(*sharded, shards);
    SuperBatch joined;
    for (const SuperBatch& shard : shards) {
      joined.samples += shard.samples;
      joined.parts.insert(joined.parts.end(), shard.parts.begin(), shard.parts.end());
    }
    of_whole = update_with(*whole, joined);
  }

  // Checks that the two agree.
  void check_joined() const {
    const LearnerState ours = sharded->save(), wanted = whole->save();
    CHECK(distance(ours.model, wanted.model) < 1e-5);
    CHECK(distance(ours.optimizer, wanted.optimizer) < 1e-5);
    for (const char* normalizer : {kObservationNormalizer, kReturnNormalizer})
      for (const char* part : {".count", ".mean", ".m2"})
        if (const std::string name = std::string(normalizer) + part; ours.model.contains(name))
          CHECK(distance({{name, ours.model.at(name)}}, {{name, wanted.model.at(name)}}) < 1e-6);
    REQUIRE(ours.scalars.size() == wanted.scalars.size());
    for (const auto& [name, value] : wanted.scalars)
      CHECK(ours.scalars.at(name) == doctest::Approx(value).epsilon(1e-6));
    CHECK(of_sharded.steps == of_whole.steps);
    CHECK(of_sharded.epochs == of_whole.epochs);
    REQUIRE(of_sharded.metrics.size() == of_whole.metrics.size());
    for (const auto& [name, value] : of_whole.metrics) {
      CAPTURE(name);
      CHECK(of_sharded.metrics.at(name) == doctest::Approx(value).epsilon(1e-4));
    }
  }
};

}  // namespace troupe::test
