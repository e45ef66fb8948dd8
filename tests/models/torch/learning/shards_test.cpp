// Updates that consist of several shards: they train as one with the samples of all.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/torch_test.h"

#include "tests/models/torch/learning/shards.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Masks every third step.
std::shared_ptr<Rollout> with_masked_steps(std::shared_ptr<Rollout> rollout) {
  const auto valid = rollout->grid().valid.mutable_view<uint8_t>();
  for (size_t i = 0; i < valid.size(); i += 3) valid[i] = 0;
  return rollout;
}

// Only every `whole`-th action chunk was executed to its end, so that samples differ in their number of ratios.
std::shared_ptr<Rollout> with_cut_chunks(std::shared_ptr<Rollout> rollout, const EnvSpec& spec, size_t whole) {
  rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
  const auto executed = rollout->grid().executed.mutable_view<int32_t>();
  for (size_t i = 0; i < executed.size(); ++i) executed[i] = i % whole == 0 ? spec.action.chunk : 1;
  return rollout;
}

}  // namespace

TEST_CASE("shards: two with half of a batch each train like one with the whole batch") {
  for (const bool device_form : {false, true}) {
    for (const EnvSpec& spec : {continuous_spec(), discrete_spec()}) {
      CAPTURE(device_form);
      const RunConfig config = shard_config();
      Trainers trainers(config, spec, device_form);
      for (uint64_t update = 0; update < 3; ++update) {
        CAPTURE(update);
        trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 2 * update)),
                         whole_batch(rollout_of(config, spec, 6, 4, 2 * update + 1))});
        CHECK(trainers.of_whole.steps == 3);
        trainers.check_joined();
      }
    }
  }
}

TEST_CASE("shards: the result does not depend on how the valid samples of a batch are divided among them") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    const RunConfig config = shard_config();
    const EnvSpec spec = continuous_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1)),
                     whole_batch(with_masked_steps(rollout_of(config, spec, 4, 2, 2)))});
    trainers.check_joined();
  }
}

TEST_CASE("shards: with a ratio per dimension, means are over the decisions of all of them") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = shard_config();
    config.algorithm.ratio = "per_dimension";
    const EnvSpec spec = token_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(with_cut_chunks(rollout_of(config, spec, 6, 4, 1), spec, 1)),
                     whole_batch(with_cut_chunks(rollout_of(config, spec, 5, 3, 2), spec, 4))});
    trainers.check_joined();
  }
}

TEST_CASE("shards: the KL of all samples ends the epochs") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = shard_config();
    config.trainer.epochs = 4;
    const EnvSpec spec = discrete_spec();
    const SuperBatch calm = whole_batch(rollout_of(config, spec, 6, 4, 1, 0.01f));
    const SuperBatch wild = whole_batch(rollout_of(config, spec, 6, 2, 2, 1.0f));
    const auto kl_of = [&](const SuperBatch& batch) {
      return update_with(*learner_of(config, spec, device_form), batch).metrics.at("kl");
    };
    const double low = kl_of(calm), high = kl_of(wild);
    REQUIRE(low < 0.1 * high);
    for (const double share : {0.1, 0.9}) {  // position of the target between the KL of the two shards
      config.algorithm.target_kl = low + share * (high - low);
      Trainers trainers(config, spec, device_form);
      trainers.update({calm, wild});
      CHECK(trainers.of_whole.epochs == (share < 0.5 ? 1 : 4));
      trainers.check_joined();
    }
  }
}

TEST_CASE("shards: the adaptive KL penalty follows the KL of all samples") {
  for (const bool device_form : {false, true}) {
    RunConfig config = shard_config();
    config.algorithm.kl_controller = "adaptive";
    const EnvSpec spec = discrete_spec();
    Trainers trainers(config, spec, device_form);
    for (uint64_t update = 0; update < 2; ++update)
      trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1 + update, 0.01f)),
                       whole_batch(rollout_of(config, spec, 6, 2, 7 + update, 1.0f))});
    CHECK(trainers.whole->save().scalars.at("kl_coef") != config.algorithm.kl_coef);
    trainers.check_joined();
  }
}

TEST_CASE("shards: one with nothing to train on adds nothing") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    const RunConfig config = shard_config();
    const EnvSpec spec = continuous_spec();
    const SuperBatch some = whole_batch(rollout_of(config, spec, 6, 4, 1));
    auto no_decision = rollout_of(config, spec, 2, 2, 2);
    std::ranges::fill(no_decision->grid().valid.mutable_view<uint8_t>(), 0);
    for (const SuperBatch& none : {SuperBatch{}, whole_batch(no_decision)}) {
      for (const bool first : {false, true}) {
        Trainers trainers(config, spec, device_form);
        if (first)
          trainers.update({none, some});
        else
          trainers.update({some, none});
        trainers.check_joined();
      }
    }
  }
}

TEST_CASE("shards: if none has anything to train on, the update makes no step") {
  for (const bool device_form : {false, true}) {
    Trainers trainers(shard_config(), discrete_spec(), device_form);
    trainers.update({SuperBatch{}, SuperBatch{}});
    CHECK(trainers.of_sharded.empty());
  }
}

TEST_CASE("shards: one with fewer samples than minibatches makes as many steps as the others") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = shard_config();
    config.trainer.minibatches = 5;
    config.trainer.epochs = 2;
    const EnvSpec spec = discrete_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1)), whole_batch(rollout_of(config, spec, 2, 1, 2))});
    CHECK(trainers.of_sharded.steps == 10);
  }
}

TEST_CASE("shards: one whose incomplete sequences are all dropped adds nothing") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = shard_config();
    config.algorithm.advantage = "grpo";
    config.algorithm.incomplete = "drop";
    const EnvSpec spec = discrete_spec();
    const auto complete = rollout_of(config, spec, 4, 3, 1);
    for (size_t i = 9; i < 12; ++i) complete->grid().terminated.mutable_view<uint8_t>()[i] = 1;
    const SuperBatch some = whole_batch(complete), none = whole_batch(rollout_of(config, spec, 4, 3, 2));
    Trainers trainers(config, spec, device_form);
    trainers.update({some, none});
    CHECK(trainers.of_sharded.steps == 3);
    trainers.check_joined();
    trainers.update({none, none});
    CHECK(trainers.of_sharded.empty());
  }
}

TEST_CASE("shards: a step with NaN in one is skipped") {
  for (const bool device_form : {false, true}) {
    RunConfig config = shard_config();
    config.model.normalize_returns = false;
    config.replay.max_policy_lag = 0;  // else the state also holds how this version normalised
    const EnvSpec spec = discrete_spec();
    const auto bad = rollout_of(config, spec, 2, 4, 1);
    bad->grid().returns.mutable_view<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    const SuperBatch good = whole_batch(rollout_of(config, spec, 2, 4, 2));
    for (const std::vector<SuperBatch>& shards : {std::vector{good, whole_batch(bad)}, {whole_batch(bad), good}}) {
      const auto learner = learner_of(with_shards(config, 2), spec, device_form);
      const LearnerState before = learner->save();
      const UpdateReport report = update_with(*learner, shards);
      CHECK(report.skipped == 3);
      CHECK(report.failed());
      for (const auto& [name, array] : before.model)
        if (!name.starts_with(kObservationNormalizer)) CHECK((learner->save().model.at(name) == array));
      CHECK((learner->save().optimizer == before.optimizer));
    }
  }
}

TEST_CASE("shards: any number of them, and micro-batches, train like one with the whole batch") {
  for (const bool device_form : {false, true}) {
    for (const size_t count : {2, 3, 4, 5, 8}) {
      for (const int64_t micro_batch : {0, 7}) {
        CAPTURE(device_form);
        CAPTURE(count);
        CAPTURE(micro_batch);
        RunConfig config = shard_config();
        config.trainer.micro_batch = micro_batch;
        const EnvSpec spec = continuous_spec();
        Trainers trainers(config, spec, device_form, count);
        std::vector<SuperBatch> shards;
        for (size_t shard = 0; shard < count; ++shard)  // of different sizes, so that some have fewer micro-batches
          shards.push_back(whole_batch(rollout_of(config, spec, 3 + static_cast<int64_t>(shard % 3), 4, shard)));
        trainers.update(shards);
        trainers.check_joined();
      }
    }
  }
}

TEST_CASE("shards: they draw minibatches from streams of their own") {
  RunConfig config = shard_config();
  config.trainer.minibatches = 3;
  const EnvSpec spec = discrete_spec();
  const SuperBatch one = whole_batch(rollout_of(config, spec, 6, 4, 1)),
                   two = whole_batch(rollout_of(config, spec, 6, 4, 2));
  const auto trained = [&](const std::vector<SuperBatch>& shards) {
    const auto learner = learner_of(with_shards(config, 2), spec, /*device_form=*/false);
    update_with(*learner, shards);
    return learner->save().model;
  };
  CHECK((trained({one, two}) == trained({one, two})));
  CHECK_FALSE((trained({one, two}) == trained({two, one})));
}

TEST_CASE("shards: a batch for each shard is needed") {
  const RunConfig config = shard_config();
  const EnvSpec spec = discrete_spec();
  const auto learner = learner_of(with_shards(config, 2), spec, /*device_form=*/false);
  CHECK_THROWS_AS(update_with(*learner, std::vector{whole_batch(rollout_of(config, spec, 6, 4, 1))}), InvariantError);
}
