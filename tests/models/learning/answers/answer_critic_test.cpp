// Token runs with a critic, and every estimator and loss of the library.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "models/lm/hf_export.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/models/learning/answers/moments.h"
#include "tests/models/lm/lora_models.h"
#include "tests/models/lm/reward_models.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

LearnerConfig config_of(const std::string& advantage = "gae") {
  LearnerConfig config;
  config.algorithm.advantage = advantage;
  config.algorithm.gamma = 1.0;
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  return config;
}

LmModel model_of(CriticKind critic, uint64_t seed = 4) {
  LmModel model(tiny_shape(LmFamily::llama, seed));
  model.critic = critic;
  return model;
}

const AnswerTrainerOptions kOptions{.seed = 5, .answer_tokens = 13};
constexpr CriticKind kCritics[] = {CriticKind::shared, CriticKind::separate};

UpdateReport update(Learner& learner, const LmModel& model, uint64_t seed) {
  return learner.update(*learner.stager()->stage(whole(random_answers(6, model.shape.vocabulary, seed))), 0);
}

// The weights of one side, by name.
std::map<std::string, Array> part_of(const Learner& learner, bool critic) {
  std::map<std::string, Array> result;
  for (auto& [name, tensor] : learner.save().model)
    if (name.starts_with("critic.") == critic) result.emplace(name, tensor);
  return result;
}

const auto policy_of = [](const Learner& learner) { return part_of(learner, false); };
const auto critic_of = [](const Learner& learner) { return part_of(learner, true); };

}  // namespace

TEST_CASE("answer_critic: it is saved and never published, and a separate one begins with the policy's weights") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    const auto learner = make_answer_learner(config_of(), model, kOptions);
    const auto without = make_answer_learner(config_of("grpo"), model_of(CriticKind::none), kOptions);
    CHECK(learner->published_signature()->hash() == without->published_signature()->hash());
    CHECK(policy_of(*learner) == without->save().model);
    const std::map<std::string, Array> critic = critic_of(*learner);
    CHECK(critic.contains("critic.lm_head.weight") == false);
    CHECK(std::ranges::count(critic.at("critic.value_head.weight").view<float>(), 0.0f) == model.shape.hidden);
    CHECK(
        critic.size() ==
        (kind == CriticKind::shared ? 2 : 2 + lm_tensors(model.shape).size() - (model.shape.tied_embeddings ? 0 : 1)));
    if (kind == CriticKind::separate)
      CHECK(critic.at("critic.model.norm.weight") == learner->save().model.at("model.norm.weight"));
  }
}

TEST_CASE("answer_critic: updates train it, and their figures are those of a value function") {
  for (const CriticKind kind : kCritics) {
    LearnerConfig config = config_of();
    config.trainer.policy_lr = config.trainer.value_lr = 1e-2;
    const LmModel model = model_of(kind);
    const auto learner = make_answer_learner(config, model, kOptions);
    double first = 0, last = 0;
    for (int i = 0; i < 40; ++i) {  // on the same answers
      const UpdateReport report = update(*learner, model, 1);
      REQUIRE(report.steps == 1);
      (i == 0 ? first : last) = report.metrics.at("value_loss");
      if (i == 0) CHECK(report.metrics.at("explained_variance") == doctest::Approx(0).epsilon(1e-9));
      if (i == 39) CHECK(report.metrics.at("explained_variance") > 0.5);
      CHECK(report.metrics.contains("value_lr"));
    }
    CHECK(last < 0.3 * first);
  }
  const LmModel model = model_of(CriticKind::none);
  const auto without = make_answer_learner(config_of("grpo"), model, kOptions);
  const UpdateReport report = update(*without, model, 1);
  for (const char* name : {"value_loss", "explained_variance", "value_lr"}) CHECK_FALSE(report.metrics.contains(name));
}

TEST_CASE("answer_critic: the loss of a separate critic does not change the bytes of the policy, that of a head does") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    const auto after = [&](double value_coef) {
      LearnerConfig config = config_of();
      config.algorithm.value_coef = value_coef;
      config.trainer.max_grad_norm = 0.1;  // which the gradients of both exceed
      auto learner = make_answer_learner(config, model, kOptions);
      update(*learner, model, 1);
      // Values are 0 at the first update, so that a head of 0 has no gradient for the trunk.
      LearnerState state = learner->save();
      for (float& x : state.model.at("critic.value_head.weight").mutable_view<float>()) x = 0.1f;
      learner = make_answer_learner(config, model, kOptions);
      learner->begin_from(state.model);
      update(*learner, model, 2);
      return learner;
    };
    const auto a = after(0.5), b = after(4.0);
    CHECK(critic_of(*a) != critic_of(*b));
    CHECK((policy_of(*a) == policy_of(*b)) == (kind == CriticKind::separate));
  }
}

TEST_CASE("answer_critic: value-only updates leave the policy as it is") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    LearnerConfig config = config_of();
    config.trainer.value_only_updates = 2;
    const auto learner = make_answer_learner(config, model, kOptions);
    const std::map<std::string, Array> policy = policy_of(*learner), critic = critic_of(*learner);
    CHECK(update(*learner, model, 1).metrics.at("policy_loss") == 0.0);
    CHECK(policy_of(*learner) == policy);
    CHECK(critic_of(*learner) != critic);
    update(*learner, model, 2);
    CHECK(policy_of(*learner) == policy);
    update(*learner, model, 3);
    CHECK(policy_of(*learner) != policy);
  }
}

TEST_CASE("answer_critic: epochs of the critic alone leave the policy and its figures as they are") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    LearnerConfig config = config_of();
    const auto plain = make_answer_learner(config, model, kOptions);
    config.trainer.value_epochs = 4;
    const auto more = make_answer_learner(config, model, kOptions);
    const UpdateReport a = update(*plain, model, 1), b = update(*more, model, 1);
    CHECK(a.epochs == 1);
    CHECK(b.epochs == 4);
    CHECK(b.steps == 4 * a.steps);
    CHECK(b.metrics == a.metrics);
    CHECK(policy_of(*more) == policy_of(*plain));
    CHECK(critic_of(*more) != critic_of(*plain));
  }
}

TEST_CASE("answer_critic: threads do not change the bytes, nor micro-batches more than 1e-5 of a gradient") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    LearnerConfig config = config_of();
    config.algorithm.bootstrap_cut_answers = true;
    std::vector<std::map<std::string, Array>> moments;
    for (const auto& [threads, micro] : {std::pair{1, 0}, {3, 0}, {2, 9}}) {
      AnswerTrainerOptions options = kOptions;
      options.threads = threads;
      options.micro_batch_tokens = micro;
      const auto learner = make_answer_learner(config, model, options);
      update(*learner, model, 0);
      moments.push_back(learner->save().optimizer);
    }
    CHECK(moments[0] == moments[1]);
    CHECK(worst_difference(moments[0], moments[2]) <= 1e-5);
  }
}

TEST_CASE("answer_critic: a restored learner continues with the same bits") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    LearnerConfig config = config_of("vtrace");
    config.algorithm.value_clip = 0.2;
    config.algorithm.value_loss = "huber";
    config.trainer.epochs = config.trainer.minibatches = 2;
    const auto first = make_answer_learner(config, model, kOptions),
               second = make_answer_learner(config, model, kOptions);
    update(*first, model, 1);
    second->load(first->save());
    CHECK(update(*first, model, 2).metrics == update(*second, model, 2).metrics);
    CHECK(first->save().model == second->save().model);
    CHECK(first->save().optimizer == second->save().optimizer);
    LearnerState bad = first->save();
    bad.model.erase("critic.value_head.bias");
    CHECK_THROWS_AS(second->load(bad), ConfigError);
  }
}

TEST_CASE("answer_critic: a warm-up trains the policy alone, and a separate critic begins with what it has made") {
  for (const CriticKind kind : kCritics) {
    const LmModel model = model_of(kind);
    const auto learner = make_answer_learner(config_of(), model, kOptions);
    const std::map<std::string, Array> before = critic_of(*learner);
    const auto batch = learner->stager()->stage(whole(random_answers(6, model.shape.vocabulary, 1)));
    learner->imitate(*batch, 1e-2);
    CHECK(critic_of(*learner) == before);
    learner->end_warmup();
    if (kind == CriticKind::shared) continue;
    const LearnerState state = learner->save();
    CHECK(state.model.at("critic.model.norm.weight") == state.model.at("model.norm.weight"));
    CHECK(critic_of(*learner) != before);
  }
}

TEST_CASE("answer_critic: with adapters, a head trains beside them, and a separate critic begins with the base") {
  for (const CriticKind kind : kCritics) {
    LmModel model = lora_model(tiny_shape(LmFamily::qwen2, 3), 4, 8);
    model.critic = kind;
    const auto learner = make_answer_learner(config_of(), model, kOptions);
    if (kind == CriticKind::separate)
      CHECK(std::ranges::equal(critic_of(*learner).at("critic.model.norm.weight").view<float>(),
                               model.frozen->weights.floats("model.norm.weight")));
    const std::map<std::string, Array> policy = policy_of(*learner), critic = critic_of(*learner);
    CHECK(update(*learner, model, 1).steps == 1);
    CHECK(policy_of(*learner) != policy);
    CHECK(critic_of(*learner) != critic);
  }
}

TEST_CASE("answer_critic: a separate critic begins with the weights of a folder, which must be of the same shape") {
  const TempFolder folder;
  LmModel model = model_of(CriticKind::separate);
  const auto other = make_answer_learner(config_of("grpo"), LmModel(model.shape), {.seed = 6, .answer_tokens = 13});
  write_hf_model(posix_disk(), folder.path(), model.shape, {}, other->save().model);
  model.critic_path = folder.path();
  const auto learner = make_answer_learner(config_of(), model, kOptions);
  const LearnerState state = learner->save();
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.mlp.up_proj.weight"})
    CHECK(state.model.at(std::string("critic.") + name) == other->save().model.at(name));
  CHECK(policy_of(*learner) == make_answer_learner(config_of("grpo"), LmModel(model.shape), kOptions)->save().model);
  learner->end_warmup();
  CHECK(learner->save().model.at("critic.model.embed_tokens.weight") ==
        other->save().model.at("model.embed_tokens.weight"));
  const int64_t size = model.shape.intermediate++;
  const std::string problem = "model.critic_path: is not the model of the policy: intermediate_size " +
                              std::to_string(size) + " instead of " + std::to_string(size + 1);
  CHECK_THROWS_WITH_AS(make_answer_learner(config_of(), model, kOptions), problem.c_str(), ConfigError);
}

TEST_CASE("answer_critic: a separate critic begins with the decoder and the score of a reward model") {
  const TempFolder folder;
  LmModel model = model_of(CriticKind::separate);
  const TinyRewardModel scores(model.shape, 7);
  scores.write(folder.path());
  model.critic_path = folder.path();
  const auto learner = make_answer_learner(config_of(), model, kOptions);
  const std::map<std::string, Array> tensors = scores.tensors(), critic = critic_of(*learner);
  CHECK(critic.at("critic.value_head.weight") == tensors.at("score.weight"));
  CHECK(critic.at("critic.model.norm.weight") == tensors.at("model.norm.weight"));
  CHECK(critic.at("critic.model.embed_tokens.weight") == tensors.at("model.embed_tokens.weight"));
}

TEST_CASE("answer_critic: with the weights of a model that has another critic, the critic begins anew") {
  for (const CriticKind kind : kCritics)
    for (const CriticKind before : {CriticKind::none, CriticKind::shared, CriticKind::separate}) {
      CAPTURE(static_cast<int>(before));
      const auto learner = make_answer_learner(config_of(), model_of(kind), kOptions);
      const LmModel model = model_of(before);
      const auto former = make_answer_learner(config_of(before == CriticKind::none ? "grpo" : "gae"), model, kOptions);
      update(*former, model, 1);
      std::map<std::string, Array> given = former->save().model;
      leave_out_other_critic(*learner->saved_signature(), given);
      CHECK(begins_critic(*learner->saved_signature(), given) == (before != kind));
      learner->begin_from(given);
      CHECK(policy_of(*learner) == policy_of(*former));
      const std::map<std::string, Array> critic = critic_of(*learner);
      if (before == kind) {
        CHECK(critic == critic_of(*former));
        continue;
      }
      for (const float x : critic.at("critic.value_head.weight").view<float>()) CHECK(x == 0);
      if (kind == CriticKind::separate)
        CHECK(critic.at("critic.model.norm.weight") == policy_of(*former).at("model.norm.weight"));
    }
  const auto learner = make_answer_learner(config_of(), model_of(CriticKind::shared), kOptions);
  std::map<std::string, Array> given = policy_of(*learner);
  given.erase("model.norm.weight");
  CHECK_THROWS_AS(learner->begin_from(given), ConfigError);
}

TEST_CASE("answer_critic: bootstrapping cut answers changes the targets of an update") {
  const LmModel model = model_of(CriticKind::shared);
  std::vector<double> returns;
  for (const bool bootstrap : {false, true}) {
    LearnerConfig config = config_of();
    config.algorithm.bootstrap_cut_answers = bootstrap;
    const auto learner = make_answer_learner(config, model, kOptions);
    LearnerState state = learner->save();
    state.model.at("critic.value_head.bias").mutable_view<float>()[0] = 10;
    learner->begin_from(state.model);
    returns.push_back(update(*learner, model, 1).metrics.at("return_mean"));
  }
  CHECK(returns[1] > returns[0] + 1);
}

TEST_CASE("answer_learner: every estimator of the table trains, or says what it lacks") {
  for (const AdvantageEntry& entry : advantage_table()) {
    CAPTURE(entry.name);
    const bool values = !entry.run.sequences;
    const LmModel model = model_of(values ? CriticKind::shared : CriticKind::none);
    const auto learner = make_answer_learner(config_of(std::string(entry.name)), model, kOptions);
    const auto train = [&] { return update(*learner, model, 3); };
    if (entry.name == "remax") {
      CHECK_THROWS_WITH_AS(train(), "baselines: missing, remax needs it", ConfigError);
      continue;
    }
    if (entry.name == "grpo_passk") continue;  // refuses groups of one answer, which these have
    const UpdateReport report = train();
    CHECK(report.steps == 1);
    CHECK(std::isfinite(report.metrics.at("policy_loss")));
    CHECK(report.metrics.at("grad_norm") > 0);
  }
}

namespace {

// Trains with what `change` makes of the settings, and returns the trained weights.
std::map<std::string, Array> trained(const std::function<void(LearnerConfig&)>& change) {
  LearnerConfig config = config_of();
  config.trainer.epochs = 2;  // so that ratios differ from 1
  change(config);
  const LmModel model = model_of(CriticKind::shared);
  const auto learner = make_answer_learner(config, model, kOptions);
  const UpdateReport report = update(*learner, model, 3);
  CHECK(report.steps == 2);
  CHECK(report.skipped == 0);
  CHECK(std::isfinite(report.metrics.at("policy_loss")));
  CHECK(report.metrics.at("grad_norm") > 0);
  return learner->save().model;
}

}  // namespace

TEST_CASE("answer_learner: every surrogate of the table trains, each in its own way") {
  std::vector<std::map<std::string, Array>> all;
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    all.push_back(trained([&](LearnerConfig& c) { c.algorithm.surrogate = entry.name; }));
  }
  // Some are equal where no ratio leaves the clip range, but not all.
  size_t different = 0;
  for (size_t i = 1; i < all.size(); ++i) different += all[i] != all[0] ? 1 : 0;
  CHECK(different * 2 > all.size());
}

TEST_CASE("answer_learner: every aggregation, value loss and KL estimate changes what is trained") {
  const auto plain = trained([](LearnerConfig&) {});
  for (const char* aggregation : {"seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    CAPTURE(aggregation);
    CHECK(trained([&](LearnerConfig& c) { c.algorithm.aggregation = aggregation; }) != plain);
  }
  CHECK(trained([](LearnerConfig& c) { c.algorithm.value_clip = 1e-4; }) != plain);
  CHECK(trained([](LearnerConfig& c) {
          c.algorithm.value_loss = "huber";
          c.algorithm.huber_delta = 0.01;
        }) != plain);
  CHECK(trained([](LearnerConfig& c) { c.algorithm.entropy_coef = 0.1; }) != plain);
  std::vector<std::map<std::string, Array>> kls = {plain};
  for (const std::string& kl : names_for("algorithm.kl")) {
    if (kl.starts_with("full")) continue;  // of the behaviour policy, whose distributions no answer carries
    CAPTURE(kl);
    kls.push_back(trained([&](LearnerConfig& c) {
      c.algorithm.kl = kl;
      c.algorithm.kl_coef = 0.3;
    }));
    CHECK(kls.back() != plain);
  }
  for (const std::string& kl : names_for("algorithm.kl"))
    for (const char* place : {"reward", "loss"}) {
      if (kl.starts_with("full") && place == std::string("reward")) continue;
      if (kl.ends_with("+") && place == std::string("reward")) continue;
      CAPTURE(kl);
      CHECK(trained([&](LearnerConfig& c) {
              c.reference.model = "start";
              c.reference.place = place;
              c.reference.kl = kl;
              c.reference.kl_coef = 0.3;
            }) != plain);
    }
}
