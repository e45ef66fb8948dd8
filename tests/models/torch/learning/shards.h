#pragma once
// A learner with several shards, and one that has the samples of all of them in one.

#include <memory>
#include <string>
#include <vector>

#include "tests/support/torch_test.h"

#include "models/weights/model_weights.h"
#include "tests/models/torch/learning/forms.h"

namespace troupe::test {

inline UpdateReport update_with(Learner& learner, const std::vector<SuperBatch>& shards, double progress = 0.0) {
  std::vector<std::unique_ptr<StagedBatch>> staged;
  std::vector<StagedBatch*> batches;
  for (const SuperBatch& batch : shards) batches.push_back(staged.emplace_back(learner.stager()->stage(batch)).get());
  return learner.update(batches, progress);
}

inline RunConfig with_shards(RunConfig config, size_t shards) {
  config.trainer.shards = static_cast<int64_t>(shards);
  return config;
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
