#pragma once
// A learner with several shards, and one that has the samples of all of them in one.

#include <functional>
#include <memory>
#include <string>
#include <utility>
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

// Learners of ranks, each with some shards of every update, on one thread.
class Ranks {
 public:
  // `counts`: how many shards each rank has.
  Ranks(const std::function<std::unique_ptr<Learner>()>& make, const std::vector<size_t>& counts) {
    for (const size_t count : counts) {
      learners.push_back(make());
      ranges_.push_back({shards_, count});
      shards_ += count;
      learners.back()->hold_shards(ranges_.back());
    }
  }

  std::vector<UpdateReport> update(const std::vector<SuperBatch>& shards, double progress = 0.0) {
    std::vector<std::unique_ptr<StagedBatch>> staged;
    for (size_t rank = 0; rank < learners.size(); ++rank) {
      std::vector<StagedBatch*> own;
      for (size_t shard = ranges_[rank].first; shard < ranges_[rank].end(); ++shard)
        own.push_back(staged.emplace_back(learners[rank]->stager()->stage(shards[shard])).get());
      learners[rank]->begin(own, progress);
    }
    while (round()) ++rounds;
    std::vector<UpdateReport> result;
    for (const auto& learner : learners) result.push_back(learner->finish());
    return result;
  }

  std::vector<std::unique_ptr<Learner>> learners;
  size_t rounds = 0;

 private:
  // Up to where all wait for each other, and on; false when all are done.
  bool round() {
    RankRound round(shards_);
    size_t done = 0;
    for (const auto& learner : learners) {
      Advance state = Advance::more;
      while (state == Advance::more) state = learner->advance();
      if (state == Advance::waits) round.add(learner->say());
      done += state == Advance::done;
    }
    if (done == learners.size()) return false;
    const RoundResult all = round.result();
    for (const auto& learner : learners) learner->deliver(all);
    return true;
  }

  size_t shards_ = 0;
  std::vector<ShardRange> ranges_;
};

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
