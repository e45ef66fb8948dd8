// Token runs with a reference: the policy with which training started.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/lm_reference.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/answers/moments.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

LearnerConfig config_of(const std::string& place, const std::string& kl = "auto", double coef = 0.1) {
  LearnerConfig config;
  config.algorithm.advantage = "rloo";
  config.reference = {.model = "start", .place = place, .kl = kl, .kl_coef = coef};
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  config.trainer.policy_lr = 1e-2;
  return config;
}

const AnswerTrainerOptions kOptions{.seed = 5, .answer_tokens = 13};

// One update with answers that the learner's own policy samples.
UpdateReport on_policy(Learner& learner, const LmModel& model) {
  const auto generator = make_lm_generator(model, slots(1.0, 1));
  generator->load(*learner.snapshot({1, 0}));
  return learner.update(*learner.stager()->stage(whole(sampled_rollout(model.shape, *generator, 5))), 0);
}

UpdateReport update(Learner& learner, const LmModel& model, uint64_t seed) {
  return learner.update(*learner.stager()->stage(whole(random_answers(6, model.shape.vocabulary, seed))), 0);
}

}  // namespace

TEST_CASE("answer_reference: the KL is exactly 0 while the policy is the reference, and above 0 once it has moved") {
  for (const LmFamily family : kFamilies)
    for (const bool lora : {false, true})
      for (const char* place : {"reward", "loss"}) {
        CAPTURE(name_of(family));
        CAPTURE(lora);
        CAPTURE(place);
        const LmShape shape = tiny_shape(family, 3);
        const LmModel model = lora ? lora_model(shape, 4, 8) : LmModel(shape);
        LearnerConfig config = config_of(place, "k3");
        config.trainer.policy_lr = 0;
        const auto still = make_answer_learner(config, model, kOptions);
        for (int i = 0; i < 2; ++i) CHECK(on_policy(*still, model).metrics.at("reference_kl") == 0.0);
        const auto learner = make_answer_learner(config_of(place, "k3"), model, kOptions);
        const UpdateReport first = on_policy(*learner, model);
        CHECK(first.metrics.at("reference_kl") == 0.0);
        CHECK(first.metrics.at("reference_kl_coef") == 0.1);
        CHECK(first.metrics.at("ratio_min") == 1.0);
        CHECK(first.metrics.at("ratio_max") == 1.0);
        const UpdateReport second = on_policy(*learner, model);
        CHECK(second.metrics.at("reference_kl") > 0.0);
        CHECK(second.metrics.at("ratio_min") == 1.0);
        CHECK(second.metrics.at("ratio_max") == 1.0);
      }
}

TEST_CASE("answer_reference: without one there is no figure, and a coefficient of 0 changes nothing but the figures") {
  const LmModel model(tiny_shape(LmFamily::llama, 3));
  LearnerConfig none = config_of("reward");
  none.reference = {};
  const auto without = make_answer_learner(none, model, kOptions);
  const auto learner = make_answer_learner(config_of("reward", "k1", 0), model, kOptions);
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(on_policy(*without, model).metrics.contains("reference_kl"));
    CHECK(on_policy(*learner, model).metrics.contains("reference_kl"));
  }
  CHECK(learner->save().model == without->save().model);
}

TEST_CASE("answer_reference: a KL in the loss has no gradient at the reference, and later draws the policy to it") {
  for (const char* kl : {"k2", "k3", "low_var_kl", "full", "k1+"}) {
    CAPTURE(kl);
    const LmModel model(tiny_shape(LmFamily::qwen2, 3));
    const auto weak = make_answer_learner(config_of("loss", kl, 0), model, kOptions);
    const auto strong = make_answer_learner(config_of("loss", kl, 100), model, kOptions);
    on_policy(*weak, model);
    on_policy(*strong, model);
    CHECK(weak->save().model == strong->save().model);
    for (int i = 0; i < 6; ++i) {
      on_policy(*weak, model);
      on_policy(*strong, model);
    }
    const auto measured = [&](Learner& learner) { return on_policy(learner, model).metrics.at("reference_kl"); };
    CHECK(std::abs(measured(*strong)) < std::abs(measured(*weak)));
  }
}

TEST_CASE("answer_reference: the adaptive coefficient rises above its target and falls below it") {
  const LmModel model(tiny_shape(LmFamily::llama, 3));
  for (const double target : {1e-9, 1e9}) {
    LearnerConfig config = config_of("reward", "k3");
    config.reference.kl_controller = "adaptive";
    config.reference.kl_target = target;
    config.reference.kl_horizon = 100;
    const auto learner = make_answer_learner(config, model, kOptions);
    const double first = update(*learner, model, 1).metrics.at("reference_kl_coef");
    const double second = update(*learner, model, 1).metrics.at("reference_kl_coef");
    CHECK(first == 0.1);
    CHECK((second > first) == (target < 1));
    CHECK(second != first);
  }
}

TEST_CASE("answer_reference: a restored learner has the same reference and continues with the same bits") {
  for (const bool lora : {false, true})
    for (const auto& [place, kl] : {std::pair{"reward", "k1"}, {"loss", "k3"}, {"loss", "full"}}) {
      CAPTURE(lora);
      CAPTURE(kl);
      LmModel model = lora ? lora_model(tiny_shape(LmFamily::llama, 3), 4, 8) : LmModel(tiny_shape(LmFamily::llama, 3));
      model.critic = CriticKind::separate;
      LearnerConfig config = config_of(place, kl);
      config.algorithm.advantage = "gae";
      config.reference.kl_controller = "adaptive";
      config.reference.kl_horizon = 100;
      const auto first = make_answer_learner(config, model, kOptions);
      for (uint64_t i = 0; i < 2; ++i) update(*first, model, i);
      const auto second = make_answer_learner(config, model, kOptions);
      second->load(first->save());
      for (uint64_t i = 2; i < 4; ++i) CHECK(update(*first, model, i).metrics == update(*second, model, i).metrics);
      CHECK(first->save().model == second->save().model);
      CHECK(first->save().optimizer == second->save().optimizer);
      CHECK(first->save().scalars == second->save().scalars);
    }
}

TEST_CASE("answer_reference: a state without the reference, or with numbers that are not finite, is refused") {
  const LmModel model(tiny_shape(LmFamily::llama, 3));
  const auto learner = make_answer_learner(config_of("reward"), model, kOptions);
  const LearnerState good = learner->save();
  LearnerState bad = good;
  bad.optimizer.erase("reference.model.norm.weight");
  CHECK_THROWS_WITH_AS(learner->load(bad), doctest::Contains("optimizer tensor reference.model.norm.weight: missing"),
                       ConfigError);
  bad = good;
  Array broken = bad.optimizer.at("reference.model.norm.weight").clone();
  broken.mutable_view<float>()[0] = std::nanf("");
  bad.optimizer["reference.model.norm.weight"] = broken;
  CHECK_THROWS_AS(learner->load(bad), ConfigError);
  LearnerConfig none = config_of("reward");
  none.reference = {};
  CHECK_THROWS_AS(make_answer_learner(none, model, kOptions)->load(good), ConfigError);
}

TEST_CASE("answer_reference: after a warm-up it is what the warm-up has made, with initial weights those") {
  const LmModel model(tiny_shape(LmFamily::llama, 3));
  const auto learner = make_answer_learner(config_of("reward", "k3"), model, kOptions);
  learner->imitate(*learner->stager()->stage(whole(random_answers(6, model.shape.vocabulary, 1))), 1e-2);
  learner->end_warmup();
  CHECK(on_policy(*learner, model).metrics.at("reference_kl") == 0.0);
  const auto other = make_answer_learner(config_of("reward", "k3"), model, kOptions);
  other->begin_from(learner->save().model);
  CHECK(on_policy(*other, model).metrics.at("reference_kl") == 0.0);
}

TEST_CASE("answer_reference: threads do not change the bytes, nor micro-batches more than 1e-5 of a gradient") {
  const LmModel model(tiny_shape(LmFamily::qwen3, 3));
  for (const char* kl : {"k3", "full"}) {
    std::vector<std::map<std::string, Array>> moments;
    for (const auto& [threads, micro] : {std::pair{1, 0}, {3, 0}, {2, 9}}) {
      AnswerTrainerOptions options = kOptions;
      options.threads = threads;
      options.micro_batch_tokens = micro;
      const auto learner = make_answer_learner(config_of("loss", kl), model, options);
      update(*learner, model, 0);
      moments.push_back(learner->save().optimizer);
    }
    CHECK(moments[0] == moments[1]);
    CHECK(worst_difference(moments[0], moments[2]) <= 1e-5);
  }
}

namespace {

// What a scorer computes for each group of the answers, asked `together` in one call or group by group.
std::vector<float> by_scorer(ReferenceModel& model, const Answers& all, bool together) {
  const auto prompts = all.prompts.view<int32_t>(), tokens = all.sampled.tokens.view<int32_t>();
  const auto prompt_offsets = all.prompt_offsets.view<int64_t>(), offsets = all.sampled.offsets.view<int64_t>();
  const auto groups = all.group.view<int32_t>();
  std::vector<std::vector<int64_t>> of_group;
  std::vector<PromptAnswers> asked;
  for (int64_t g = 0; g < all.groups(); ++g) {
    const auto [first, last] = std::ranges::equal_range(groups, static_cast<int32_t>(g));
    const auto begin = static_cast<size_t>(first - groups.begin()), end = static_cast<size_t>(last - groups.begin());
    std::vector<int64_t>& own = of_group.emplace_back();
    for (size_t a = begin; a <= end; ++a) own.push_back(offsets[a] - offsets[begin]);
    const auto at = static_cast<size_t>(g);
    asked.push_back({prompts.subspan(static_cast<size_t>(prompt_offsets[at]),
                                     static_cast<size_t>(prompt_offsets[at + 1] - prompt_offsets[at])),
                     tokens.subspan(static_cast<size_t>(offsets[begin]), static_cast<size_t>(own.back())),
                     {}});
  }
  for (size_t g = 0; g < asked.size(); ++g) asked[g].offsets = of_group[g];
  if (together) return model.log_probs(asked);
  std::vector<float> result;
  for (const PromptAnswers& each : asked) {
    const std::vector<float> part = model.log_probs({&each, 1});
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace

TEST_CASE("lm_reference: the bits of the policy that sampled the answers, whatever is asked for together") {
  for (const LmFamily family : kFamilies)
    for (const bool lora : {false, true}) {
      CAPTURE(name_of(family));
      CAPTURE(lora);
      const LmShape shape = tiny_shape(family, 3);
      const LmModel model = lora ? lora_model(shape, 4, 8) : LmModel(shape);
      const auto learner = make_answer_learner(config_of("reward"), model, kOptions);
      const auto generator = make_lm_generator(model, slots(0.7, 1));
      for (int round = 0; round < 2; ++round) {
        update(*learner, model, 3);
        generator->load(*learner->snapshot({1, 0}));
        const RolloutPtr rollout = sampled_rollout(shape, *generator, 5);
        const auto sampled = rollout->answers().sampled.log_probs.view<float>();
        for (const int64_t batch_tokens : {1, 20, 4096})
          for (const int threads : {1, 3}) {
            const auto reference = make_lm_reference(model, {0.7, batch_tokens, threads});
            reference->load(*learner->snapshot({1, 0}));
            for (const bool together : {false, true})
              CHECK(std::ranges::equal(by_scorer(*reference, rollout->answers(), together), sampled));
          }
      }
    }
}

TEST_CASE("answer_reference: a learner trains alike whoever computes with its reference") {
  for (const char* place : {"reward", "loss"}) {
    CAPTURE(place);
    const LmModel model(tiny_shape(LmFamily::qwen2, 3));
    LearnerConfig config = config_of(place, "k3");
    const auto own = make_answer_learner(config, model, kOptions);
    config.reference.computed_by = "scorers";
    const auto given = make_answer_learner(config, model, kOptions);
    const auto reference = make_lm_reference(model, {});
    reference->load(*given->reference({1, 0}));
    for (uint64_t seed = 1; seed < 4; ++seed) {
      const auto rollout = random_answers(6, model.shape.vocabulary, seed);
      own->update(*own->stager()->stage(whole(rollout)), 0);
      auto& answers = std::get<Answers>(rollout->body);
      answers.reference = array_of(by_scorer(*reference, answers, true));
      given->update(*given->stager()->stage(whole(rollout)), 0);
      CHECK(own->save().model == given->save().model);
    }
    const RolloutPtr without = random_answers(6, model.shape.vocabulary, 1);
    CHECK_THROWS_AS(given->update(*given->stager()->stage(whole(without)), 0), InvariantError);
  }
}
