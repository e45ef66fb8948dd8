// The learner and the generator of language models together: what one samples the other trains on.

#include "models/learning/answers/answer_learner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "models/lm/lm_generator.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/answers/moments.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

LearnerConfig config_of(uint64_t seed) {
  LearnerConfig config;
  config.seed = seed;
  config.algorithm.advantage = "grpo";
  config.trainer.epochs = 1;
  config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  return config;
}

}  // namespace

TEST_CASE("answer_learner: answers trained with the weights that sampled them have a ratio of exactly 1") {
  for (const LmFamily family : kFamilies)
    for (const double temperature : {1.0, 0.7}) {
      const LmShape shape = tiny_shape(family, 3);
      for (const int64_t micro : {0, 9}) {
        const auto learner = make_answer_learner(
            config_of(2), shape,
            {.seed = 2, .temperature = temperature, .answer_tokens = 13, .micro_batch_tokens = micro, .threads = 2});
        const auto generator = make_lm_generator(shape, slots(temperature, 1));
        generator->load(*learner->snapshot({1, 0}));
        const auto staged = learner->stager()->stage(whole(sampled_rollout(shape, *generator, 5)));
        const UpdateReport report = learner->update(*staged, 0);
        CHECK(report.steps == 1);
        CHECK(report.metrics.at("ratio_min") == 1.0);
        CHECK(report.metrics.at("ratio_max") == 1.0);
        CHECK(report.metrics.at("kl") == 0.0);
        CHECK(report.metrics.at("grad_norm") > 0.0);
      }
    }
}

TEST_CASE(
    "answer_learner: adapters are trained with a ratio of exactly 1, also after new weights, and nothing else is "
    "sent") {
  for (const LmFamily family : kFamilies) {
    const LmModel model = lora_model(tiny_shape(family, 3), 4, 8);
    const auto learner = make_answer_learner(config_of(2), model, {.seed = 2, .answer_tokens = 13, .threads = 2});
    const auto generator = make_lm_generator(model, slots(1.0, 1));
    for (uint64_t update = 0; update < 3; ++update) {
      const WeightsPtr weights = learner->snapshot({1, update});
      CHECK(weights->signature->tensors.size() == static_cast<size_t>(14 * model.shape.layers + 1));
      generator->load(*weights);
      const auto staged = learner->stager()->stage(whole(sampled_rollout(model.shape, *generator, 5)));
      const UpdateReport report = learner->update(*staged, 0);
      CHECK(report.metrics.at("ratio_min") == 1.0);
      CHECK(report.metrics.at("ratio_max") == 1.0);
      CHECK(report.metrics.at("grad_norm") > 0.0);
    }
  }
}

TEST_CASE(
    "answer_learner: ids that the tokenizer lacks are never drawn, and have no part in probabilities or gradients") {
  for (const LmFamily family : kFamilies) {
    LmModel model = tiny_shape(family, 3);
    model.tokens = model.shape.vocabulary - 5;
    const int64_t drawable = model.tokens, hidden = model.shape.hidden;
    // A state whose output layer prefers the ids that the tokenizer lacks.
    const auto learner = make_answer_learner(config_of(2), model, {.seed = 2, .answer_tokens = 13, .threads = 2});
    LearnerState state = learner->save();
    const std::string output = model.shape.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
    const std::span<float> rows = state.model.at(output).mutable_view<float>();
    for (size_t i = static_cast<size_t>(drawable * hidden); i < rows.size(); ++i) rows[i] *= 50;
    learner->begin_from(state.model);
    const auto generator = make_lm_generator(model, slots(1.0, 1));
    generator->load(*learner->snapshot({1, 0}));
    LmShape known = model.shape;  // of the prompts
    known.vocabulary = drawable;
    const RolloutPtr rollout = sampled_rollout(known, *generator, 5);
    CHECK(std::ranges::max(rollout->answers().sampled.tokens.view<int32_t>()) < drawable);
    CHECK(std::ranges::min(rollout->answers().sampled.log_probs.view<float>()) > -20);
    const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
    CHECK(report.metrics.at("ratio_min") == 1.0);
    CHECK(report.metrics.at("ratio_max") == 1.0);
    CHECK(report.metrics.at("entropy") <= std::log(static_cast<double>(drawable)) + 1e-6);
    const LearnerState after = learner->save();
    const std::span<const float> moved = after.model.at(output).view<float>();
    CHECK_FALSE(std::ranges::equal(moved, rows));
    // They are no inputs either: nothing trains their rows.
    CHECK(std::ranges::equal(moved.subspan(static_cast<size_t>(drawable * hidden)),
                             rows.subspan(static_cast<size_t>(drawable * hidden))));
  }
}

TEST_CASE("lm_generator: the greedy token, and the distribution, are those among the ids of the tokenizer") {
  LmModel model = tiny_shape(LmFamily::llama, 6);
  const auto learner = make_answer_learner(config_of(1), model, {.seed = 1, .answer_tokens = 13});
  const std::vector<int32_t> prompt = random_ids(model.shape, 4, 1);
  const std::vector<TokenDraw> draws = {{1, 0, true}};
  const GeneratorPart part{.prompt = 0, .tokens = prompt, .draws = draws};
  const auto greedy = [&](int64_t tokens) {
    model.tokens = tokens;
    const auto generator = make_lm_generator(model, slots(1.0, 1));
    generator->load(*learner->snapshot({1, 0}));
    return generator->compute({&part, 1}).front();
  };
  const DrawnToken whole = greedy(0), among_lower = greedy(whole.token), with_it = greedy(whole.token + 1);
  CHECK(among_lower.token < whole.token);
  CHECK(with_it.token == whole.token);
  CHECK(with_it.log_prob >= whole.log_prob);
  CHECK(greedy(1).log_prob == 0.0f);
}

TEST_CASE("answer_learner: weights of adapters of another frozen model are refused") {
  const LmModel model = lora_model(tiny_shape(LmFamily::llama, 3), 4, 8);
  LmModel other = model;
  other.frozen = std::make_shared<FrozenWeights>(WeightBlock(lm_signature(model.shape)), "fedcba9876543210");
  const auto learner = make_answer_learner(config_of(2), model, {.seed = 2, .answer_tokens = 13});
  const auto generator = make_lm_generator(other, slots(1.0, 1));
  CHECK_THROWS_AS(generator->load(*learner->snapshot({1, 0})), ConfigError);
}

TEST_CASE("answer_learner: another temperature, or other weights, give other ratios") {
  const LmShape shape = tiny_shape(LmFamily::llama, 3);
  const auto learner = make_answer_learner(config_of(2), shape, {.seed = 2, .temperature = 1.0, .answer_tokens = 13});
  const auto other = make_answer_learner(config_of(2), shape, {.seed = 3, .temperature = 1.0, .answer_tokens = 13});
  for (const double temperature : {1.0, 0.5}) {
    const auto generator = make_lm_generator(shape, slots(temperature, 1));
    generator->load(*(temperature == 1.0 ? other : learner)->snapshot({1, 0}));
    const auto staged = learner->stager()->stage(whole(sampled_rollout(shape, *generator, 5)));
    CHECK(learner->update(*staged, 0).metrics.at("kl") > 0.0);
  }
}

TEST_CASE("answer_learner: the loss is that of all groups, also of those left out because their answers scored alike") {
  const LmShape shape = tiny_shape(LmFamily::llama, 3);
  const RolloutPtr rollout = random_answers(6, shape.vocabulary, 4);
  const auto groups = rollout->answers().group.view<int32_t>();
  Array rewards = rollout->answers().rewards;
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i] < 3) rewards.mutable_view<float>()[i] = 0;
  const auto loss_with = [&](double entropy_coef) {
    LearnerConfig config = config_of(2);
    config.algorithm.entropy_coef = entropy_coef;
    const auto learner = make_answer_learner(config, shape, {.seed = 2, .answer_tokens = 13});
    return learner->update(*learner->stager()->stage(whole(rollout)), 0).metrics.at("policy_loss");
  };
  const double loss = loss_with(1e-9);  // with an entropy bonus no group is left out
  CHECK(std::abs(loss) > 1e-3);
  CHECK(loss_with(0) == doctest::Approx(loss).epsilon(1e-6));
}

TEST_CASE("answer_learner: a restored learner continues with the same bits") {
  const LmShape shape = tiny_shape(LmFamily::qwen3, 4);
  LearnerConfig config = config_of(5);
  config.trainer.epochs = 2;
  config.trainer.minibatches = 2;
  config.algorithm.kl_coef = 0.1;
  config.algorithm.kl_controller = "adaptive";
  const AnswerTrainerOptions options{.seed = 5, .answer_tokens = 13};
  const auto first = make_answer_learner(config, shape, options), second = make_answer_learner(config, shape, options);
  const auto update = [&](Learner& learner, uint64_t seed) {
    return learner.update(*learner.stager()->stage(whole(random_answers(6, shape.vocabulary, seed))), 0.1);
  };
  update(*first, 1);
  second->load(first->save());
  CHECK(update(*first, 2).metrics == update(*second, 2).metrics);
  const LearnerState a = first->save(), b = second->save();
  CHECK(a.model == b.model);
  CHECK(a.optimizer == b.optimizer);
  CHECK(a.scalars == b.scalars);
}

TEST_CASE("answer_learner: a state that does not fit is refused and changes nothing") {
  const LmShape shape = tiny_shape(LmFamily::llama, 4);
  const auto learner = make_answer_learner(config_of(1), shape, {.seed = 1, .answer_tokens = 13});
  const LearnerState good = learner->save();
  LearnerState bad = good;
  bad.model.at("model.norm.weight") = Array(DType::f32, {1});
  CHECK_THROWS_AS(learner->load(bad), ConfigError);
  bad = good;
  bad.optimizer.erase("first.model.norm.weight");
  CHECK_THROWS_AS(learner->load(bad), ConfigError);
  CHECK(learner->save().model == good.model);
}

TEST_CASE("answer_learner: a log-probability that is not finite skips the step") {
  const LmShape shape = tiny_shape(LmFamily::llama, 4);
  const auto learner = make_answer_learner(config_of(1), shape, {.seed = 1, .answer_tokens = 13});
  const LearnerState before = learner->save();
  auto rollout = random_answers(3, shape.vocabulary, 1);
  rollout->answers().sampled.log_probs.mutable_view<float>()[0] = std::nanf("");
  const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
  CHECK(report.failed());
  CHECK(learner->save().model == before.model);
}

TEST_CASE("lm_generator: a prompt and an answer that exceed the model's positions are refused") {
  LmShape shape = tiny_shape(LmFamily::llama, 4);
  shape.max_positions = 20;
  CHECK_THROWS_WITH_AS(make_lm_generator(shape, {.prompt_tokens = 12, .answer_tokens = 9}),
                       "a prompt of 12 tokens and an answer of 9 exceed the model's 20 positions", ConfigError);
}

TEST_CASE("lm_generator: draws follow the distribution, and greedy draws take the most likely token") {
  const LmShape shape = tiny_shape(LmFamily::qwen2, 6);
  const auto learner = make_answer_learner(config_of(1), shape, {.seed = 1, .answer_tokens = 13});
  const auto generator = make_lm_generator(shape, slots(1.0, 1));
  generator->load(*learner->snapshot({1, 0}));
  const std::vector<int32_t> prompt = random_ids(shape, 4, 1);
  std::vector<TokenDraw> draws;
  constexpr size_t kDraws = 20000;
  for (size_t i = 0; i < kDraws; ++i) draws.push_back({i, 0, false});
  draws.push_back({0, 0, true});
  const GeneratorPart part{.prompt = 0, .tokens = prompt, .draws = draws};
  const std::vector<DrawnToken> drawn = generator->compute({&part, 1});
  std::vector<double> counts(static_cast<size_t>(shape.vocabulary)), probability(counts.size());
  for (size_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(drawn[i].token)];
    probability[static_cast<size_t>(drawn[i].token)] = std::exp(drawn[i].log_prob);
  }
  for (size_t v = 0; v < counts.size(); ++v) {
    const double expected = kDraws * probability[v];
    CHECK(std::abs(counts[v] - expected) <= 5 * std::sqrt(expected + 1));
  }
  CHECK(probability[static_cast<size_t>(drawn.back().token)] == std::ranges::max(probability));
}

TEST_CASE("answer_learner: gradients are the same to 1e-5 however small the micro-batches are, and none is too large") {
  for (const LmFamily family : kFamilies) {
    const LmShape shape = tiny_shape(family, 4);
    const LearnerConfig config = config_of(3);
    const auto moments = [&](int64_t most, std::map<std::string, double>& metrics) {
      const auto learner =
          make_answer_learner(config, shape, {.seed = 5, .answer_tokens = 13, .micro_batch_tokens = most});
      const auto staged = learner->stager()->stage(whole(random_answers(12, shape.vocabulary, 8)));
      metrics = learner->update(*staged, 0.5).metrics;
      return learner->save().optimizer;
    };
    std::map<std::string, double> whole_metrics, metrics;
    const auto whole_moments = moments(0, whole_metrics);
    CHECK(whole_metrics.at("micro_batches") == 1);
    for (const int64_t most : {11, 16, 40}) {
      const auto divided = moments(most, metrics);
      CHECK(metrics.at("micro_batches") > 1);
      CHECK(metrics.at("balance_max") <= static_cast<double>(most));
      CHECK(metrics.at("balance_min") <= metrics.at("balance_mean"));
      CHECK(metrics.at("policy_loss") == doctest::Approx(whole_metrics.at("policy_loss")).epsilon(1e-5));
      CHECK(worst_difference(whole_moments, divided) <= 1e-5);
    }
  }
}

TEST_CASE("update_learner: updates in pieces, those of two learners in turns, are those in one call") {
  const LmShape shape = tiny_shape(LmFamily::llama, 4);
  LearnerConfig config = config_of(3);
  config.trainer.epochs = config.trainer.minibatches = 2;
  const AnswerTrainerOptions options{.seed = 5, .answer_tokens = 13, .micro_batch_tokens = 16};
  const auto at_once = make_answer_learner(config, shape, options);
  const auto first = make_answer_learner(config, shape, options), second = make_answer_learner(config, shape, options);
  for (uint64_t update = 0; update < 2; ++update) {
    const auto batches = [&] { return at_once->stager()->stage(whole(random_answers(4, shape.vocabulary, update))); };
    const auto a = batches(), b = batches(), c = batches();
    const UpdateReport report = at_once->update(*a, 0.5);
    first->begin(*b, 0.5);
    second->begin(*c, 0.5);
    int pieces = 0;
    for (Advance state = Advance::more; state == Advance::more; ++pieces) {
      state = first->advance();
      CHECK((second->advance() == state));
    }
    CHECK(pieces > 2 * 2 * 3);  // epochs, minibatches, and of each: its begin, its parts and its step
    CHECK(first->finish().metrics == report.metrics);
    CHECK(second->finish().steps == report.steps);
  }
  CHECK(first->save().model == at_once->save().model);
  CHECK(first->save().optimizer == at_once->save().optimizer);
  CHECK(second->save().model == at_once->save().model);
}

TEST_CASE("update_learner: an update under way refuses everything else, and pieces out of order") {
  const LmShape shape = tiny_shape(LmFamily::llama, 4);
  const auto learner = make_answer_learner(config_of(1), shape, {.seed = 5, .answer_tokens = 13});
  CHECK_THROWS_AS(learner->advance(), InvariantError);
  CHECK_THROWS_AS(learner->finish(), InvariantError);
  const LearnerState before = learner->save();
  const auto batch = learner->stager()->stage(whole(random_answers(4, shape.vocabulary, 1)));
  learner->begin(*batch, 0);
  CHECK_THROWS_AS(learner->begin(*batch, 0), InvariantError);
  CHECK_THROWS_AS(learner->finish(), InvariantError);
  CHECK_THROWS_AS(learner->snapshot({0, 1}), InvariantError);
  CHECK_THROWS_AS(learner->save(), InvariantError);
  CHECK_THROWS_AS(learner->load(before), InvariantError);
  while (learner->advance() == Advance::more) continue;
  CHECK((learner->advance() == Advance::done));
  CHECK(learner->finish().steps == 1);
  CHECK(learner->snapshot({0, 1}) != nullptr);
}

TEST_CASE("answer_learner: an update tells how long its stages took") {
  const LmShape shape = tiny_shape(kFamilies[0], 3);
  const auto learner = make_answer_learner(config_of(2), shape, {.seed = 2, .answer_tokens = 13, .threads = 1});
  const auto generator = make_lm_generator(shape, slots(1, 1));
  generator->load(*learner->snapshot({1, 0}));
  const auto staged = learner->stager()->stage(whole(sampled_rollout(shape, *generator, 5)));
  const UpdateStages stages = learner->update(*staged, 0).stages;
  for (const double seconds : {stages.prepare, stages.forward, stages.backward, stages.optimizer}) CHECK(seconds > 0);
}
