// Updates of answers that consist of several shards: they train as one with the answers of all.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/answers/moments.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Settings {
  LmModel model;
  LearnerConfig config;
  int64_t micro_batch_tokens = 0;
};

LearnerConfig shard_config() {
  LearnerConfig config;
  config.seed = 3;
  config.algorithm.advantage = "grpo";
  config.trainer.epochs = 2;
  config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  config.trainer.adam_epsilon = 1;  // so that a step is proportional to its gradient
  config.trainer.policy_lr = config.trainer.value_lr = 0.1;
  return config;
}

std::unique_ptr<Learner> learner_of(const Settings& settings, size_t shards) {
  LearnerConfig config = settings.config;
  config.trainer.shards = static_cast<int64_t>(shards);
  return make_answer_learner(
      config, settings.model,
      {.seed = 2, .answer_tokens = 13, .micro_batch_tokens = settings.micro_batch_tokens, .threads = 1});
}

// Answers to so many prompts.
SuperBatch answers_to(const Settings& settings, const Learner& learner, int64_t prompts) {
  const auto generator = make_lm_generator(settings.model, slots(1.0, 1));
  generator->load(*learner.snapshot({1, 0}));
  return whole(sampled_rollout(settings.model.shape, *generator, prompts, /*version=*/0));
}

UpdateReport update_with(Learner& learner, const std::vector<SuperBatch>& shards) {
  std::vector<std::unique_ptr<StagedBatch>> staged;
  std::vector<StagedBatch*> batches;
  for (const SuperBatch& shard : shards) batches.push_back(staged.emplace_back(learner.stager()->stage(shard)).get());
  return learner.update(batches, 0.5);
}

// Trains with the answers to so many prompts in each shard, and with all of them in one.
void check_shards(const Settings& settings, const std::vector<int64_t>& prompts) {
  const auto sharded = learner_of(settings, prompts.size()), whole = learner_of(settings, 1);
  std::vector<SuperBatch> shards;
  SuperBatch joined;
  for (const int64_t count : prompts) {
    shards.push_back(answers_to(settings, *whole, count));
    joined.parts.insert(joined.parts.end(), shards.back().parts.begin(), shards.back().parts.end());
  }
  const UpdateReport ours = update_with(*sharded, shards), wanted = update_with(*whole, {joined});
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
    const Settings settings{tiny_shape(LmFamily::llama, 3), shard_config(), micro_batch_tokens};
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
  Settings adapters{lora_model(shape, 4, 8), shard_config()};
  check_shards(adapters, {3, 4});
  for (const CriticKind critic : {CriticKind::shared, CriticKind::separate}) {
    Settings settings{shape, shard_config()};
    settings.model.critic = critic;
    settings.config.algorithm.advantage = "gae";
    settings.config.trainer.value_lr = 0.01;
    check_shards(settings, {3, 4});
    settings.config.trainer.value_only_updates = 1;
    check_shards(settings, {2, 2, 3});
  }
}

TEST_CASE("answer_shards: the same update has the same bits, and shards draw from streams of their own") {
  Settings settings{tiny_shape(LmFamily::llama, 3), shard_config()};
  settings.config.trainer.minibatches = 2;
  const auto first = learner_of(settings, 2);
  const SuperBatch one = answers_to(settings, *first, 4), two = answers_to(settings, *first, 5);
  const auto trained = [&](const std::vector<SuperBatch>& shards) {
    const auto learner = learner_of(settings, 2);
    update_with(*learner, shards);
    return learner->save().model;
  };
  CHECK((trained({one, two}) == trained({one, two})));
  CHECK_FALSE((trained({one, two}) == trained({two, one})));
}

TEST_CASE("answer_shards: a step that is not finite in one of them is skipped") {
  const Settings settings{tiny_shape(LmFamily::llama, 3), shard_config()};
  const auto learner = learner_of(settings, 2);
  const SuperBatch good = answers_to(settings, *learner, 2), bad = answers_to(settings, *learner, 2);
  auto rollout = std::make_shared<Rollout>(*bad.parts.front().rollout);
  std::get<Answers>(rollout->body).rewards = rollout->answers().rewards.clone();
  std::get<Answers>(rollout->body).rewards.mutable_view<float>()[1] = std::nanf("");
  const LearnerState before = learner->save();
  const UpdateReport report = update_with(*learner, {good, whole(rollout)});
  CHECK(report.failed());
  CHECK((learner->save().model == before.model));
}
