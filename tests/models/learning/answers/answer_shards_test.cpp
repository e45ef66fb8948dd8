// Updates of answers that consist of several shards: they train as one with the answers of all.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/models/learning/answers/answer_shards.h"
#include "tests/models/learning/answers/moments.h"
#include "tests/models/lm/lora_models.h"
#include "tests/models/shards/ranks.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Trains with the answers to so many prompts in each shard, and with all of them in one.
void check_shards(const ShardSettings& settings, const std::vector<int64_t>& prompts) {
  const auto sharded = learner_of(settings, prompts.size()), whole = learner_of(settings, 1);
  std::vector<SuperBatch> shards;
  SuperBatch joined;
  for (const int64_t count : prompts) {
    shards.push_back(answers_to(settings, *whole, count));
    joined.parts.insert(joined.parts.end(), shards.back().parts.begin(), shards.back().parts.end());
  }
  const UpdateReport ours = update_with(*sharded, shards, 0.5), wanted = update_with(*whole, {joined}, 0.5);
  CHECK(ours.steps == wanted.steps);
  CHECK(wanted.steps == 2);
  CHECK(worst_difference(sharded->save().model, whole->save().model) < 1e-5);
  CHECK(worst_difference(sharded->save().optimizer, whole->save().optimizer) < 1e-5);
  REQUIRE(ours.metrics.size() == wanted.metrics.size());
  for (const auto& [name, value] : wanted.metrics) {
    if (name.starts_with("balance_") || name == "micro_batches") continue;
    CAPTURE(name);
    CHECK(ours.metrics.at(name) == doctest::Approx(value).epsilon(1e-3));
  }
}

}  // namespace

TEST_CASE("answer_shards: any number of them, and micro-batches, train like one with all answers") {
  for (const int64_t micro_batch_tokens : {0, 30}) {
    const ShardSettings settings{tiny_shape(LmFamily::llama, 3), shard_config(), micro_batch_tokens};
    for (const std::vector<int64_t>& prompts :
         {std::vector<int64_t>{4, 4}, {5, 2}, {3, 4, 2}, {2, 3, 4, 5}, {1, 2, 1, 2, 1}}) {
      CAPTURE(micro_batch_tokens);
      CAPTURE(prompts.size());
      check_shards(settings, prompts);
    }
  }
}

TEST_CASE("answer_shards: adapters, critics and their own learning rates train like with one shard") {
  const LmShape shape = tiny_shape(LmFamily::qwen2, 3);
  ShardSettings adapters{lora_model(shape, 4, 8), shard_config()};
  check_shards(adapters, {3, 4});
  for (const CriticKind critic : {CriticKind::shared, CriticKind::separate}) {
    ShardSettings settings{shape, shard_config()};
    settings.model.critic = critic;
    settings.config.algorithm.advantage = "gae";
    settings.config.trainer.value_lr = 0.01;
    check_shards(settings, {3, 4});
    settings.config.trainer.value_only_updates = 1;
    check_shards(settings, {2, 2, 3});
  }
}

TEST_CASE("answer_shards: the same update has the same bits, and shards draw from streams of their own") {
  ShardSettings settings{tiny_shape(LmFamily::llama, 3), shard_config()};
  settings.config.trainer.minibatches = 2;
  const auto first = learner_of(settings, 2);
  const SuperBatch one = answers_to(settings, *first, 4), two = answers_to(settings, *first, 5);
  const auto trained = [&](const std::vector<SuperBatch>& shards) {
    const auto learner = learner_of(settings, 2);
    update_with(*learner, shards, 0.5);
    return learner->save().model;
  };
  CHECK((trained({one, two}) == trained({one, two})));
  CHECK_FALSE((trained({one, two}) == trained({two, one})));
}

TEST_CASE("answer_shards: a step that is not finite in one of them is skipped") {
  const ShardSettings settings{tiny_shape(LmFamily::llama, 3), shard_config()};
  const auto learner = learner_of(settings, 2);
  const SuperBatch good = answers_to(settings, *learner, 2), bad = answers_to(settings, *learner, 2);
  auto rollout = std::make_shared<Rollout>(*bad.parts.front().rollout);
  std::get<Answers>(rollout->body).rewards = rollout->answers().rewards.clone();
  std::get<Answers>(rollout->body).rewards.mutable_view<float>()[1] = std::nanf("");
  const LearnerState before = learner->save();
  const UpdateReport report = update_with(*learner, {good, whole(rollout)}, 0.5);
  CHECK(report.failed());
  CHECK((learner->save().model == before.model));
}
