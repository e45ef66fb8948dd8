// A small decoder learns to reverse digits: first from demonstrations, then from its own answers. Without actors, so
// every number is the same in every run.

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "actors/experience/answers/generation_scheduler.h"
#include "models/learning/answers/answer_learner.h"
#include "models/lm/lm_generator.h"
#include "runtime/base/rng.h"
#include "tasks/make_task.h"
#include "tests/support/test.h"
#include "text/char_tokenizer.h"

using namespace troupe;

namespace {

constexpr int64_t kAnswers = 8, kPrompts = 16;
constexpr int kWarmUpSteps = 60;
constexpr uint64_t kUpdates = 500;

LmShape small_shape(int64_t vocabulary) {
  LmShape shape;
  shape.vocabulary = vocabulary;
  shape.hidden = 128;
  shape.layers = 4;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 32;
  shape.intermediate = 384;
  shape.max_positions = 64;
  shape.tied_embeddings = true;
  return shape;
}

struct World {
  std::unique_ptr<Task> task;
  CharTokenizer tokenizer;
  LmShape shape;
  int64_t answer_tokens;
  uint64_t drawn = 0;

  explicit World(const TaskConfig& config)
      : task(make_task(config)),
        tokenizer(task->alphabet()),
        shape(small_shape(tokenizer.vocabulary_size())),
        answer_tokens(static_cast<int64_t>(task->max_answer_length()) + 1) {}

  Prompt draw(Split split) {
    Rng rng(derive_key(1, split == Split::train ? "train" : "held out", drawn++));
    return task->draw(rng, split);
  }
};

std::unique_ptr<AnswerBatch> demonstrations(World& world, int64_t count) {
  auto batch = std::make_unique<AnswerBatch>();
  batch->prompt_offsets = batch->group_offsets = batch->offsets = {0};
  for (int64_t i = 0; i < count; ++i) {
    const Prompt prompt = world.draw(Split::train);
    const auto ids = world.tokenizer.encode(prompt.text);
    batch->prompts.insert(batch->prompts.end(), ids.begin(), ids.end());
    batch->prompt_offsets.push_back(static_cast<int64_t>(batch->prompts.size()));
    const auto answer = world.tokenizer.encode(prompt.demonstration);
    batch->tokens.insert(batch->tokens.end(), answer.begin(), answer.end());
    batch->tokens.push_back(CharTokenizer::kEos);
    batch->offsets.push_back(static_cast<int64_t>(batch->tokens.size()));
    batch->rewards.push_back(1);
    batch->group_offsets.push_back(i + 1);
  }
  batch->log_probs.assign(batch->tokens.size(), 0.0f);
  return batch;
}

struct Sampled {
  RolloutPtr rollout;
  double reward = 0, right = 0;
};

Sampled sample(World& world, Generator& generator, int64_t prompts, int64_t answers, Split split, bool greedy,
               uint64_t version) {
  GenerationScheduler scheduler(generator, {.prefill_tokens = 256, .end_tokens = {CharTokenizer::kEos}});
  std::vector<Prompt> drawn;
  for (int64_t i = 0; i < prompts; ++i) {
    drawn.push_back(world.draw(split));
    GenerationRequest request{.ticket = static_cast<uint64_t>(i),
                              .prompt = world.tokenizer.encode(drawn.back().text),
                              .max_tokens = world.answer_tokens,
                              .keys = {},
                              .greedy = greedy ? static_cast<size_t>(answers) : 0};
    for (int64_t a = 0; a < answers; ++a)
      request.keys.push_back(derive_key(derive_key(7, "answer", world.drawn), "of", static_cast<uint64_t>(a)));
    scheduler.add(std::move(request));
  }
  std::vector<Generation> done(static_cast<size_t>(prompts));
  while (!scheduler.idle())
    for (Generation& generation : scheduler.step(generator, version))
      done[static_cast<size_t>(generation.ticket)] = std::move(generation);

  std::vector<int32_t> ids, tokens, group;
  std::vector<int64_t> prompt_offsets{0}, offsets{0}, versions;
  std::vector<float> log_probs, rewards;
  std::vector<uint8_t> right, finish;
  Sampled result;
  for (int64_t g = 0; g < prompts; ++g) {
    const auto prompt = world.tokenizer.encode(drawn[static_cast<size_t>(g)].text);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    prompt_offsets.push_back(static_cast<int64_t>(ids.size()));
    for (const GeneratedAnswer& answer : done[static_cast<size_t>(g)].answers) {
      const Score score =
          world.task->score(drawn[static_cast<size_t>(g)], world.tokenizer.decode(answer.tokens, SpecialTokens::skip));
      tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
      log_probs.insert(log_probs.end(), answer.log_probs.begin(), answer.log_probs.end());
      for (const uint64_t each : answer.version) versions.push_back(static_cast<int64_t>(each));
      offsets.push_back(static_cast<int64_t>(tokens.size()));
      group.push_back(static_cast<int32_t>(g));
      rewards.push_back(static_cast<float>(score.reward));
      right.push_back(score.right);
      finish.push_back(static_cast<uint8_t>(answer.finish));
      result.reward += score.reward;
      result.right += score.right;
    }
  }
  const auto count = static_cast<double>(rewards.size());
  result.reward /= count;
  result.right /= count;
  const auto of = []<class T>(const std::vector<T>& values) {
    return Array::of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
  };
  auto rollout = std::make_shared<Rollout>();
  rollout->body = Answers{.prompts = of(ids),
                          .prompt_offsets = of(prompt_offsets),
                          .sampled = {.tokens = of(tokens),
                                      .offsets = of(offsets),
                                      .log_probs = of(log_probs),
                                      .version = of(versions),
                                      .finish = of(finish)},
                          .group = of(group),
                          .rewards = of(rewards),
                          .right = of(right)};
  result.rollout = rollout;
  return result;
}

SuperBatch super_batch(const RolloutPtr& rollout) {
  SuperBatch batch;
  RolloutUnits units{rollout, {}, UnitKind::group};
  for (int64_t g = 0; g < rollout->answers().groups(); ++g) units.indices.push_back(static_cast<int32_t>(g));
  batch.parts.push_back(std::move(units));
  return batch;
}

}  // namespace

TEST_CASE("token learner: reverses 4 digits after a warm-up on demonstrations and 500 updates of RLOO") {
  World world({.name = "reverse", .params = R"({"digits": 4})"});
  LearnerConfig config;
  config.trainer.policy_lr = 1e-4;
  config.trainer.lr_schedule = "constant";
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.max_grad_norm = 1.0;
  config.trainer.adam_beta2 = 0.95;
  config.algorithm.advantage = "rloo";
  const AnswerTrainerOptions options{.seed = 1, .answer_tokens = world.answer_tokens, .threads = 2};
  const auto generator = make_lm_generator(
      world.shape, {.prompt_slots = 32, .prompt_tokens = 8, .answer_slots = 128, .answer_tokens = 8, .threads = 2});

  AlgorithmConfig supervised;
  supervised.surrogate = "reinforce";  // with an advantage of 1 for every token: maximum likelihood
  AnswerTrainer warmup(world.shape, config.trainer, choose_algorithm(supervised), options);
  for (int step = 0; step < kWarmUpSteps; ++step) {
    const auto batch = demonstrations(world, 64);
    std::vector<int64_t> groups(static_cast<size_t>(batch->groups()));
    std::iota(groups.begin(), groups.end(), 0);
    AnswerTargets ones;
    ones.advantages.assign(batch->tokens.size(), 1.0f);
    warmup.step(*batch, ones, groups, {.rates = {.policy = 1e-3, .value = 0}, .loss = {}});
  }
  generator->load(*warmup.weights().snapshot({0, 0}));
  const double before = sample(world, *generator, 200, 1, Split::held_out, true, 0).right;

  const auto learner = make_answer_learner(config, world.shape, options);
  learner->begin_from(warmup.weights().save());
  for (uint64_t update = 0; update < kUpdates; ++update) {
    generator->load(*learner->snapshot({1, update}));
    const Sampled sampled = sample(world, *generator, kPrompts, kAnswers, Split::train, false, update);
    const UpdateReport report = learner->update(*learner->stager()->stage(super_batch(sampled.rollout)), 0);
    REQUIRE(report.steps == 1);
    REQUIRE(report.metrics.at("ratio_min") == 1.0);
    REQUIRE(report.metrics.at("ratio_max") == 1.0);
  }
  generator->load(*learner->snapshot({1, kUpdates}));
  const double after = sample(world, *generator, 200, 1, Split::held_out, true, 0).right;
  MESSAGE("right answers to held-out prompts: " << before << " after the warm-up, " << after << " at the end");
  CHECK(before >= 0.2);
  CHECK(before <= 0.6);
  CHECK(after >= 0.9);
}
