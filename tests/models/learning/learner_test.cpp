#include <chrono>
#include <cmath>

#include "actors/config/config.h"
#include "algorithms/advantages/advantages.h"
#include "algorithms/losses/surrogate.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("learner: a policy and a learner of one config have the same signature and initial weights") {
  for (const EnvSpec& spec : {discrete_spec(), continuous_spec(), token_spec(), masked_spec()}) {
    Pair pair(small_config(), spec);
    CHECK_FALSE(pair.policy->signature()->first_difference(*pair.learner->published_signature()));
    const Array before = pair.policy->act(one_input(spec, 3)).log_probs;
    pair.policy->load(*pair.learner->snapshot({0, 0}));
    CHECK(pair.policy->act(one_input(spec, 3)).log_probs == before);
  }
}

TEST_CASE("learner: micro-batches give the gradient of their whole minibatch") {
  for (const EnvSpec& spec : {discrete_spec(), continuous_spec(), token_spec()}) {
    RunConfig config = small_config();
    config.algorithm.entropy_coef = 0.02;
    Pair whole(config, spec);
    config.trainer.micro_batch = 7;
    Pair micro(config, spec);
    const SuperBatch batch = whole.batch(1);
    const UpdateReport a = update_with(*whole.learner, batch), b = update_with(*micro.learner, batch);
    const LearnerState x = whole.learner->save(), y = micro.learner->save();
    for (const auto& [name, moment] : x.optimizer) {
      const auto p = moment.view<float>(), q = y.optimizer.at(name).view<float>();
      for (size_t i = 0; i < p.size(); ++i) CHECK(std::abs(p[i] - q[i]) < 1e-7f + 1e-5f * std::abs(p[i]));
    }
    for (const char* name : {"policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "ess", "ess_clamped"})
      CHECK(a.metrics.at(name) == doctest::Approx(b.metrics.at(name)).epsilon(1e-5));
  }
}

TEST_CASE("learner: after saving and loading the next update is the same bit for bit") {
  RunConfig config = small_config();
  config.trainer.epochs = 2;
  config.trainer.minibatches = 3;
  config.model.normalize_observations = config.model.normalize_returns = true;
  Pair pair(config, continuous_spec());
  update_with(*pair.learner, pair.batch(1));
  const auto other = make_learner(config, pair.spec);
  other->load(pair.learner->save());
  const UpdateReport a = update_with(*pair.learner, pair.batch(2), 0.5), b = update_with(*other, pair.batch(2), 0.5);
  CHECK(same_model(*pair.learner, *other));
  CHECK(pair.learner->save().optimizer == other->save().optimizer);
  CHECK(pair.learner->save().scalars == other->save().scalars);
  CHECK(a.metrics == b.metrics);
}

TEST_CASE("learner: a state that does not fit is refused and changes nothing") {
  Pair pair(small_config(), discrete_spec());
  update_with(*pair.learner, pair.batch(1));
  const LearnerState good = pair.learner->save();
  LearnerState bad = good;
  bad.model["value.head.bias"] = Array(DType::f32, {2});
  CHECK_THROWS_WITH_AS(pair.learner->load(bad),
                       "tensor value.head.bias is float32 [2], this run's model has float32 [1]", ConfigError);
  bad = good;
  bad.optimizer.erase("second.policy.0.bias");
  CHECK_THROWS_WITH_AS(pair.learner->load(bad), "optimizer tensor second.policy.0.bias: missing, expected float32 [16]",
                       ConfigError);
  bad = good;
  bad.scalars.erase("updates");
  CHECK_THROWS_WITH_AS(pair.learner->load(bad), "learner state: updates is missing", ConfigError);
  bad = good;
  bad.scalars["kl_coef"] = -1;
  CHECK_THROWS_WITH_AS(pair.learner->load(bad), "learner state: kl_coef is -1, expected a number >= 0", ConfigError);
  bad = good;
  bad.model["extra"] = Array(DType::f32, {1});
  CHECK_THROWS_AS(pair.learner->load(bad), ConfigError);
  CHECK(pair.learner->save().model == good.model);
  CHECK(pair.learner->save().optimizer == good.optimizer);
}

TEST_CASE("learner: a state with invalid numbers is refused with the name of the tensor, and changes nothing") {
  RunConfig config = small_config();
  config.model.normalize_observations = config.model.normalize_returns = true;
  Pair pair(config, discrete_spec());
  update_with(*pair.learner, pair.batch(1));
  const LearnerState good = pair.learner->save();
  const auto refused = [&](const auto& change) {
    LearnerState bad = good;  // its arrays share memory with `good` until they are cloned
    for (auto* const tensors : {&bad.model, &bad.optimizer})
      for (auto& [name, array] : *tensors) array = array.clone();
    change(bad);
    try {
      pair.learner->load(bad);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const std::string moment : {"first.policy.0.bias", "second.value.head.weight"})
    for (const float x : {NAN, INFINITY, -INFINITY})
      CHECK(refused([&](LearnerState& bad) { bad.optimizer.at(moment).mutable_view<float>().back() = x; }) ==
            "optimizer tensor " + moment + " holds a number that is not finite");
  CHECK(refused([](LearnerState& bad) { bad.optimizer.at("second.policy.0.bias").mutable_view<float>()[0] = -1; }) ==
        "optimizer tensor second.policy.0.bias holds a negative number");
  for (const std::string name : {"observation_normalizer", "return_normalizer"}) {
    for (const std::string part : {".count", ".m2"})
      CHECK(refused([&](LearnerState& bad) { bad.model.at(name + part).mutable_view<double>()[0] = -5; }) ==
            "tensor " + name + part + " holds a negative number");
    CHECK(refused([&](LearnerState& bad) { bad.model.at(name + ".mean").mutable_view<double>()[0] = NAN; }) ==
          "tensor " + name + ".mean holds a number that is not finite");
  }
  CHECK(refused([](LearnerState& bad) { bad.model.at("policy.0.bias").mutable_view<float>()[0] = NAN; }) ==
        "tensor policy.0.bias holds a number that is not finite");
  CHECK(pair.learner->save().model == good.model);
  CHECK(pair.learner->save().optimizer == good.optimizer);
}

TEST_CASE("learner: begin_from takes weights and normalisers of another one, with a new optimizer and counts at 0") {
  RunConfig config = small_config();
  config.model.normalize_observations = config.model.normalize_returns = true;
  Pair former(config, continuous_spec());
  update_with(*former.learner, former.batch(1));
  config.seed = 99;
  config.algorithm.gamma = 0.5;
  config.trainer.epochs = 2;
  const auto fresh = make_learner(config, former.spec), learner = make_learner(config, former.spec);
  CHECK_FALSE(same_model(*former.learner, *learner));
  learner->begin_from(former.learner->save().model);
  CHECK(same_model(*former.learner, *learner));
  CHECK(learner->save().optimizer == fresh->save().optimizer);
  CHECK(learner->save().scalars == fresh->save().scalars);
  update_with(*learner, former.batch(2));
  CHECK(learner->save().scalars.at("updates") == 1);
}

TEST_CASE("learner: weights that do not fit are refused and change nothing") {
  Pair pair(small_config(), discrete_spec());
  const LearnerState before = pair.learner->save();
  std::map<std::string, Array> bad = before.model;
  bad["value.head.bias"] = Array(DType::f32, {2});
  CHECK_THROWS_WITH_AS(pair.learner->begin_from(bad),
                       "tensor value.head.bias is float32 [2], this run's model has float32 [1]", ConfigError);
  CHECK(pair.learner->save().model == before.model);
}

TEST_CASE("learner: a policy that loads a snapshot acts with the learner's weights and normalisers") {
  RunConfig config = small_config();
  config.model.normalize_observations = config.model.normalize_returns = true;
  Pair a(config, discrete_spec()), b(config, discrete_spec());
  update_with(*a.learner, a.batch(1));
  const WeightsPtr snapshot = a.learner->snapshot({0, 1});
  a.policy->load(*snapshot);
  CHECK_FALSE(a.policy->act(one_input(a.spec, 4)).values == b.policy->act(one_input(b.spec, 4)).values);
  b.policy->load(*snapshot);
  CHECK(a.policy->act(one_input(a.spec, 4)).values == b.policy->act(one_input(b.spec, 4)).values);
  CHECK(a.policy->act(one_input(a.spec, 4)).values == a.policy->values(one_input(a.spec, 4).observations));
  CHECK(a.learner->save().model.at("observation_normalizer.count").view<double>()[0] == 48.0);
}

TEST_CASE("learner: new statistics of returns do not change the values in reward units") {
  RunConfig config = small_config();
  config.model.normalize_returns = true;
  config.trainer.value_lr = config.trainer.policy_lr = 0.0;
  Pair pair(config, discrete_spec());
  const Array before = pair.policy->values(one_input(pair.spec, 5).observations);
  update_with(*pair.learner, pair.batch(1));
  pair.policy->load(*pair.learner->snapshot({0, 1}));
  const Array after = pair.policy->values(one_input(pair.spec, 5).observations);
  for (int i = 0; i < 5; ++i) CHECK(after.view<float>()[i] == doctest::Approx(before.view<float>()[i]).epsilon(1e-5));
}

TEST_CASE("learner: a minibatch with NaN is skipped and counted, and changes nothing") {
  for (const char* what : {"advantages", "returns", "observations"}) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.trainer.minibatches = 2;
    config.trainer.epochs = 2;
    Pair pair(config, discrete_spec());
    auto rollout = random_rollout(pair.spec, *pair.policy, 2, 4, 1);
    // One bad sample: in each epoch only the minibatch with this sample is skipped.
    if (std::string(what) == "advantages") rollout->grid().advantages.mutable_view<float>()[3] = nan();
    if (std::string(what) == "returns") rollout->grid().returns.mutable_view<float>()[3] = nan();
    if (std::string(what) == "observations") rollout->grid().observations.at("state").mutable_view<float>()[3] = nan();
    const UpdateReport report = update_with(*pair.learner, whole_batch(rollout));
    CHECK(report.skipped == 2);
    CHECK(report.steps == 2);
    CHECK(report.metrics.at("skipped_steps") == 2.0);
    pair.policy->load(*pair.learner->snapshot({0, 1}));
    CHECK_NOTHROW(pair.policy->act(one_input(pair.spec, 3)));
  }
  RunConfig config = small_config();
  config.model.normalize_observations = true;
  config.replay.max_policy_lag = 0;  // else the state also holds how this version normalised
  Pair pair(config, discrete_spec());
  auto rollout = random_rollout(pair.spec, *pair.policy, 2, 4, 1);
  for (float& x : rollout->grid().advantages.mutable_view<float>()) x = nan();
  const auto before = pair.learner->save();
  CHECK(update_with(*pair.learner, whole_batch(rollout)).steps == 0);
  CHECK(pair.learner->save().optimizer == before.optimizer);
  CHECK(pair.learner->save().model.at("policy.0.weight") == before.model.at("policy.0.weight"));
}

TEST_CASE("learner: observations with NaN do not affect the normaliser") {
  RunConfig config = small_config();
  config.model.normalize_observations = true;
  Pair pair(config, discrete_spec());
  auto rollout = random_rollout(pair.spec, *pair.policy, 2, 4, 1);
  rollout->grid().observations.at("state").mutable_view<float>()[3] = nan();
  update_with(*pair.learner, whole_batch(rollout));
  const auto model = pair.learner->save().model;
  CHECK(model.at("observation_normalizer.count").view<double>()[0] == 7.0);
  CHECK(std::isfinite(model.at("observation_normalizer.mean").view<double>()[3]));
}

TEST_CASE("learner: an empty super-batch trains nothing") {
  Pair pair(small_config(), discrete_spec());
  const auto before = pair.learner->save();
  const UpdateReport report = update_with(*pair.learner, {});
  CHECK(report.steps + report.skipped + report.epochs == 0);
  CHECK(pair.learner->save().model == before.model);
}

TEST_CASE("learner: value-only updates do not change the policy") {
  for (bool shared : {false, true}) {
    RunConfig config = small_config();
    config.trainer.value_only_updates = 1;
    config.model.shared_trunk = shared;
    Pair pair(config, continuous_spec());
    const auto before = pair.learner->save().model;
    update_with(*pair.learner, pair.batch(1));
    const auto after = pair.learner->save().model;
    for (const auto& [name, array] : after) CHECK((array == before.at(name)) == !name.starts_with("value."));
    update_with(*pair.learner, pair.batch(2));
    CHECK_FALSE(pair.learner->save().model.at("policy.head.weight") == before.at("policy.head.weight"));
  }
}

TEST_CASE("learner: epochs of the value function alone change no byte of the policy and no figure of it") {
  for (const double target_kl : {0.0, 1e-4}) {
    RunConfig config = small_config();
    config.trainer.epochs = 2;
    config.algorithm.target_kl = target_kl;
    Pair plain(config, continuous_spec());
    config.trainer.value_epochs = 5;
    Pair more(config, continuous_spec());
    const UpdateReport a = update_with(*plain.learner, plain.batch(1)), b = update_with(*more.learner, more.batch(1));
    CHECK(a.epochs == (target_kl == 0.0 ? 2 : 1));
    CHECK(b.epochs == 5);
    CHECK(b.metrics == a.metrics);
    const auto of_a = plain.learner->save().model, of_b = more.learner->save().model;
    for (const auto& [name, array] : of_b) CHECK((array == of_a.at(name)) == !name.starts_with("value."));
  }
}

TEST_CASE("learner: epochs stop when the KL exceeds algorithm.target_kl") {
  RunConfig config = small_config();
  config.trainer.epochs = 10;
  config.algorithm.target_kl = 1e-4;
  Pair pair(config, discrete_spec());
  // The noise of the stored log-probabilities exceeds the target at once.
  CHECK(update_with(*pair.learner, pair.batch(1)).epochs == 1);
}

TEST_CASE("learner: a scheduled log_std follows progress and is part of the snapshot") {
  RunConfig config = small_config();
  config.model.log_std = "scheduled";
  config.model.log_std_start = 0.0;
  config.model.log_std_end = -2.0;
  Pair pair(config, continuous_spec());
  const UpdateReport report = update_with(*pair.learner, pair.batch(1), 0.5);
  CHECK(report.metrics.at("log_std") == doctest::Approx(-1.0));
  CHECK(pair.learner->save().model.at("policy.log_std").view<float>()[0] == -1.0f);
}

TEST_CASE("learner: learning rates warm up, decay and differ between policy and value") {
  RunConfig config = small_config();
  config.trainer.lr_schedule = "linear";
  config.trainer.lr_warmup = 2;
  config.trainer.policy_lr = 1e-3;
  config.trainer.value_lr = 4e-3;
  Pair pair(config, discrete_spec());
  CHECK(update_with(*pair.learner, pair.batch(1), 0.0).metrics.at("policy_lr") == doctest::Approx(5e-4));
  const UpdateReport second = update_with(*pair.learner, pair.batch(2), 0.5);
  CHECK(second.metrics.at("policy_lr") == doctest::Approx(5e-4));
  CHECK(second.metrics.at("value_lr") == doctest::Approx(2e-3));
}

TEST_CASE("learner: the first update of a warm-up has a rate above 0, and wsd stays at the peak before it decays") {
  RunConfig config = small_config();
  config.trainer.lr_schedule = "wsd";
  config.trainer.lr_stable_ratio = 0.5;
  config.trainer.lr_min_ratio = 0.2;
  config.trainer.lr_warmup = 4;
  config.trainer.policy_lr = 1e-3;
  Pair pair(config, discrete_spec());
  const auto rate = [&](double progress) {
    return update_with(*pair.learner, pair.batch(1), progress).metrics.at("policy_lr");
  };
  for (const int update : {1, 2, 3, 4}) CHECK(rate(0.1) == doctest::Approx(1e-3 * update / 4));
  CHECK(rate(0.5) == doctest::Approx(1e-3));
  CHECK(rate(0.75) == doctest::Approx(1e-3 * 0.6));  // half-way down the cosine from 1 to 0.2
  CHECK(rate(1.0) == doctest::Approx(1e-3 * 0.2));
}

TEST_CASE("learner: it accepts every name that a config file accepts") {
  RunConfig config;
  for (const Field& field : describe(config)) {
    const auto* name = std::get_if<std::string*>(&field.value);
    if (name == nullptr ||
        (field.section() != "algorithm" && field.section() != "trainer" && field.section() != "model"))
      continue;
    const std::string kept = **name;
    for (const std::string_view choice : field.setting.choices) {
      CAPTURE(field.path);
      CAPTURE(choice);
      if (choice == kDecoderKind) continue;  // of token runs, which have another learner
      const bool tokens = choice == kTokenTransformerKind;
      config.model.decoder = tokens ? R"({"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                                          "intermediate_size": 8})"
                                    : "{}";
      **name = choice;
      CHECK_NOTHROW(make_learner(config, tokens ? discrete_spec() : continuous_spec()));
    }
    **name = kept;
  }
}

TEST_CASE("make_model: invalid settings are refused with their path") {
  const auto refused = [](auto change) {
    RunConfig config = small_config();
    change(config);
    try {
      make_learner(config, discrete_spec());
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refused([](RunConfig& c) { c.trainer.device = "cuda:x"; }) ==
        "trainer.device: \"cuda:x\", expected \"cpu\", \"cuda\" or \"cuda:N\"");
  CHECK(refused([](RunConfig& c) { c.trainer.device = "cuda:99"; }).starts_with("trainer.device: \"cuda:99\", but"));
  CHECK(
      refused([](RunConfig& c) { c.algorithm.ratio = "both"; }).starts_with("algorithm.ratio: unknown name \"both\""));
  CHECK(refused([](RunConfig& c) {
          c.algorithm.advantage = "gea";
        }).starts_with("algorithm.advantage: unknown name \"gea\""));
  CHECK(refused([](RunConfig& c) { c.algorithm.surrogate = "clop"; }) != "accepted");
}

TEST_CASE("learner: an update tells how long its stages took, after those of its batch") {
  Pair pair(small_config(), discrete_spec());
  const auto staged = pair.learner->stager()->stage(pair.batch(1));
  CHECK(staged->stages.copy == 0);  // the batch is in host memory already
  staged->stages.draw = 7;
  const auto begin = std::chrono::steady_clock::now();
  const UpdateStages stages = pair.learner->update(*staged, 0).stages;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(stages.draw == 7);
  for (const double seconds : {stages.prepare, stages.forward, stages.backward, stages.optimizer}) CHECK(seconds > 0);
  CHECK(stages.prepare + stages.forward + stages.backward + stages.optimizer <= took.count() + 1e-9);
}
