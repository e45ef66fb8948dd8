#include <algorithm>
#include <cmath>
#include <limits>

#include "actors/config/config.h"
#include "algorithms/advantages/advantages.h"
#include "algorithms/advantages/gae.h"
#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/losses/surrogate.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

bool same_model(const Learner& a, const Learner& b) { return a.save().model == b.save().model; }

}  // namespace

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

TEST_CASE("learner: only the drawn columns of a super-batch and their valid steps are trained on") {
  RunConfig config = small_config();
  Pair a(config, token_spec()), b(config, token_spec());
  auto all = random_rollout(a.spec, *a.policy, 3, 4, 1);
  all->grid().valid.mutable_view<uint8_t>()[0 * 4 + 2] = 0;
  SuperBatch part = whole_batch(all);
  part.parts[0].indices = {1, 2};
  // A rollout with only these five samples.
  auto picked = random_rollout(b.spec, *b.policy, 5, 1, 1);
  const int64_t samples[] = {1, 5, 6, 9, 10};
  const auto pick = [&](const Array& from, Array& to) {
    for (int64_t i = 0; i < 5; ++i) {
      const size_t bytes = to.row_bytes();
      std::copy_n(from.data() + samples[i] * bytes, bytes, to.mutable_data() + i * bytes);
    }
  };
  pick(all->grid().observations.at("state"), picked->grid().observations.at("state"));
  for (auto member : {&Grid::actions, &Grid::log_probs, &Grid::values, &Grid::advantages, &Grid::returns})
    pick(all->grid().*member, picked->grid().*member);
  const auto staged = a.learner->stager()->stage(part);
  CHECK(staged->samples == 5);
  a.learner->update(*staged, 0.0);
  update_with(*b.learner, whole_batch(picked));
  CHECK(same_model(*a.learner, *b.learner));
}

TEST_CASE("learner: single samples give the same update as a rollout with exactly these steps") {
  RunConfig config = small_config();
  Pair a(config, token_spec()), b(config, token_spec());
  auto rollout = random_rollout(a.spec, *a.policy, 6, 3, 1);
  rollout->grid().valid.mutable_view<uint8_t>()[7] = 0;
  SuperBatch samples;
  samples.parts.push_back({rollout, {}, UnitKind::sample});
  for (int32_t i = 0; i < 18; ++i)
    if (i != 7) samples.parts[0].indices.push_back(i);
  CHECK(a.learner->stager()->stage(samples)->samples == 17);
  update_with(*a.learner, samples);
  update_with(*b.learner, whole_batch(rollout));
  CHECK(same_model(*a.learner, *b.learner));

  // Samples of two rollouts, compared with a rollout of only these samples.
  Pair c(config, token_spec()), d(config, token_spec());
  const auto other = random_rollout(a.spec, *a.policy, 4, 2, 2);
  samples.parts = {{rollout, {2, 9, 10}, UnitKind::sample}, {other, {5}, UnitKind::sample}};
  auto picked = random_rollout(a.spec, *a.policy, 4, 1, 3);
  const auto copy = [&](const Rollout& from, int64_t step, int64_t to) {
    const auto copy_step = [&](const Array& source, Array target) {
      std::copy_n(source.data() + step * target.row_bytes(), target.row_bytes(),
                  target.mutable_data() + to * target.row_bytes());
    };
    copy_step(from.grid().observations.at("state"), picked->grid().observations.at("state"));
    for (auto member : {&Grid::actions, &Grid::log_probs, &Grid::values, &Grid::advantages, &Grid::returns})
      copy_step(from.grid().*member, picked->grid().*member);
  };
  copy(*rollout, 2, 0);
  copy(*rollout, 9, 1);
  copy(*rollout, 10, 2);
  copy(*other, 5, 3);
  update_with(*c.learner, samples);
  update_with(*d.learner, whole_batch(picked));
  CHECK(same_model(*c.learner, *d.learner));
}

TEST_CASE("learner: an estimator that needs whole columns refuses single samples") {
  RunConfig config = small_config();
  config.algorithm.advantage = "vtrace";
  Pair pair(config, discrete_spec());
  const auto rollout = random_rollout(pair.spec, *pair.policy, 4, 2, 1);
  CHECK_THROWS_AS(pair.learner->stager()->stage({0, 2, 0, {{rollout, {1, 4}, UnitKind::sample}}}), InvariantError);
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

TEST_CASE("learner: on-policy V-trace with lambda 1 trains like GAE, whatever values the workers stored") {
  RunConfig config = small_config();
  config.algorithm.lambda = 1.0;
  Pair pair(config, discrete_spec());
  auto rollout = random_rollout(pair.spec, *pair.policy, 12, 3, 1, /*log_prob_noise=*/0.0f);
  rollout->grid().terminated.mutable_view<uint8_t>()[4 * 3 + 1] = 1;
  rollout->grid().truncated.mutable_view<uint8_t>()[6 * 3 + 2] = 1;
  // The values after the last step and at the truncation are those of the policy, as a worker stores them.
  rollout->grid().last_observations.set("state", random_array({3, 5}, 50));
  rollout->grid().final_observations.set("state", random_array({1, 5}, 51));
  rollout->grid().final_steps = Array::of<int32_t>({1, 2}, {6, 2});
  const auto next = rollout->grid().next_values.mutable_view<float>();
  for (int64_t i = 0; i + 3 < rollout->grid().values.size(); ++i) next[i] = rollout->grid().values.view<float>()[i + 3];
  const Array last = pair.policy->values(rollout->grid().last_observations),
              cut = pair.policy->values(rollout->grid().final_observations);
  std::ranges::copy(last.view<float>(), next.end() - 3);
  next[6 * 3 + 2] = cut.view<float>()[0];
  GaeInput in;
  in.steps = 12;
  in.sequences = 3;
  in.rewards = rollout->grid().rewards.view<float>();
  in.values = rollout->grid().values.view<float>();
  in.next_values = rollout->grid().next_values.view<float>();
  in.terminated = rollout->grid().terminated.view<uint8_t>();
  in.truncated = rollout->grid().truncated.view<uint8_t>();
  in.gamma = static_cast<float>(config.algorithm.gamma);
  in.lambda = static_cast<float>(config.algorithm.lambda);
  gae(in, rollout->grid().advantages.mutable_view<float>(), rollout->grid().returns.mutable_view<float>());
  const UpdateReport by_gae = update_with(*pair.learner, whole_batch(rollout));

  // V-trace computes the values itself, so the stored ones must have no effect.
  for (float& x : rollout->grid().next_values.mutable_view<float>()) x = 1e6f;
  for (float& x : rollout->grid().values.mutable_view<float>()) x = -1e6f;
  config.algorithm.advantage = "vtrace";
  const auto learner = make_learner(config, pair.spec);
  const UpdateReport by_vtrace = update_with(*learner, whole_batch(rollout));
  for (const char* name : {"advantage_mean", "advantage_std", "return_mean", "return_std", "value_loss",
                           "explained_variance", "grad_norm"})
    CHECK(by_vtrace.metrics.at(name) == doctest::Approx(by_gae.metrics.at(name)).epsilon(1e-4));
  const auto x = pair.learner->save().optimizer, y = learner->save().optimizer;
  for (const auto& [name, moment] : x)
    for (int64_t i = 0; i < moment.size(); ++i)
      CHECK(y.at(name).view<float>()[i] == doctest::Approx(moment.view<float>()[i]).epsilon(1e-3).scale(1e-4));
}

TEST_CASE("learner: the contents of a masked step do not affect other steps with V-trace") {
  RunConfig config = small_config();
  config.algorithm.advantage = "vtrace";
  Pair a(config, discrete_spec()), b(config, discrete_spec());
  const auto with_masked_step = [&](float garbage) {
    auto rollout = random_rollout(a.spec, *a.policy, 6, 2, 1);
    rollout->grid().valid.mutable_view<uint8_t>()[2 * 2 + 1] = 0;
    for (int64_t i = 0; i < 5; ++i)
      rollout->grid().observations.at("state").mutable_view<float>()[(2 * 2 + 1) * 5 + i] = garbage;
    for (auto member : {&Grid::rewards, &Grid::log_probs, &Grid::values, &Grid::next_values})
      (rollout->grid().*member).mutable_view<float>()[2 * 2 + 1] = garbage;
    return whole_batch(rollout);
  };
  CHECK(a.learner->stager()->stage(with_masked_step(1.0f))->samples == 11);
  CHECK(update_with(*a.learner, with_masked_step(1.0f)).steps == 1);
  CHECK(update_with(*b.learner, with_masked_step(nan())).steps == 1);
  CHECK(same_model(*a.learner, *b.learner));
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

namespace {

// A batch in which episodes end, so that it has several sequences per column. `distance` is the largest additional
// noise of the log-probabilities.
SuperBatch episodes_batch(const Pair& pair, uint64_t seed, float distance = 0) {
  auto rollout = random_rollout(pair.spec, *pair.policy, 9, 8, seed);
  Rng rng(seed);
  if (distance > 0)
    for (float& log_prob : rollout->grid().log_probs.mutable_view<float>())
      log_prob += distance * (2 * rng.uniform() - 1);
  for (int64_t i = 0; i < 72; ++i) {
    rollout->grid().terminated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.2f;
    rollout->grid().truncated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.1f;
  }
  if (!pair.spec.tasks.empty()) {
    rollout->grid().task = Array(DType::i32, {9, 8});
    for (int32_t& task : rollout->grid().task.mutable_view<int32_t>()) task = static_cast<int32_t>(rng.below(2));
  }
  return whole_batch(rollout);
}

EnvSpec with_tasks(EnvSpec spec) {
  spec.tasks = {"one", "two"};
  return spec;
}

}  // namespace

TEST_CASE("learner: any size of micro-batch gives the gradient of the minibatch, for every aggregation") {
  const auto config_of = [](auto change) {
    RunConfig config = small_config();
    config.algorithm.entropy_coef = 0.02;
    change(config.algorithm);
    return config;
  };
  const std::vector<RunConfig> configs = {
      config_of([](AlgorithmConfig& a) { a.surrogate = "gspo"; }),
      config_of([](AlgorithmConfig& a) { a.surrogate = "geo_mean"; }),
      config_of([](AlgorithmConfig& a) { a.surrogate = "gspo", a.ratio = "per_dimension"; }),
      config_of([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-mean"; }),
      config_of([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-sum"; }),
      config_of([](AlgorithmConfig& a) { a.aggregation = "seq-mean-token-sum-norm"; }),
      config_of([](AlgorithmConfig& a) { a.kl = "k2", a.kl_coef = 0.3; }),
      config_of([](AlgorithmConfig& a) {
        a.rollout_correction = R"({"is": "sequence", "rejection": "token_k1", "rejection_threshold": "0.8_1.25"})";
        a.aggregation = "seq-mean-token-mean";
      }),
  };
  for (RunConfig config : configs) {
    CAPTURE(config.algorithm.surrogate);
    CAPTURE(config.algorithm.aggregation);
    CAPTURE(config.algorithm.rollout_correction);
    Pair whole(config, token_spec());
    const SuperBatch batch = episodes_batch(whole, 1);
    const UpdateReport a = update_with(*whole.learner, batch);
    CHECK(a.steps == 1);
    for (int64_t size : {1, 5, 30}) {
      config.trainer.micro_batch = size;
      Pair micro(config, token_spec());
      const UpdateReport b = update_with(*micro.learner, batch);
      const LearnerState x = whole.learner->save(), y = micro.learner->save();
      for (const auto& [name, moment] : x.optimizer) {
        const auto p = moment.view<float>(), q = y.optimizer.at(name).view<float>();
        float largest = 0, difference = 0;
        for (size_t i = 0; i < p.size(); ++i) {
          largest = std::max(largest, std::abs(p[i]));
          difference = std::max(difference, std::abs(p[i] - q[i]));
        }
        CAPTURE(name);
        CHECK(difference <= 1e-5f * largest + 1e-9f);
      }
      for (const char* name :
           {"policy_loss", "value_loss", "entropy", "kl", "ess", "ess_clamped", "ratio_mean", "ratio_max", "ratio_min"})
        CHECK(a.metrics.at(name) == doctest::Approx(b.metrics.at(name)).epsilon(1e-4));
    }
  }
}

TEST_CASE("learner: a step with any estimator and any surrogate changes the policy, and is reproducible") {
  std::vector<RunConfig> configs;
  for (const AdvantageEntry& entry : advantage_table()) {
    configs.push_back(small_config());
    configs.back().algorithm.advantage = entry.name;
  }
  for (const SurrogateEntry& entry : surrogate_table()) {
    configs.push_back(small_config());
    configs.back().algorithm.surrogate = entry.name;
  }
  for (RunConfig config : configs) {
    for (const char* ratio : {"joint", "per_dimension"}) {
      config.algorithm.ratio = ratio;
      CAPTURE(config.algorithm.advantage);
      CAPTURE(config.algorithm.surrogate);
      CAPTURE(ratio);
      Pair pair(config, token_spec()), again(config, token_spec());
      const auto before = pair.learner->save().model;
      const UpdateReport report = update_with(*pair.learner, episodes_batch(pair, 3));
      CHECK(report.steps == 1);
      CHECK(pair.learner->save().model.at("policy.head.weight") != before.at("policy.head.weight"));
      update_with(*again.learner, episodes_batch(pair, 3));
      CHECK(same_model(*pair.learner, *again.learner));
    }
  }
}

TEST_CASE("learner: estimates that the trainer computes are not read from rollouts") {
  for (const AdvantageEntry& entry : advantage_table()) {
    CAPTURE(entry.name);
    RunConfig config = small_config();
    config.algorithm.advantage = entry.name;
    const RolloutExtras extras = rollout_extras(config.algorithm);
    Pair with(config, token_spec()), without(config, token_spec());
    const SuperBatch batch = episodes_batch(with, 3);
    auto bare = std::make_shared<Rollout>(*batch.parts[0].rollout);
    if (!extras.advantages) bare->grid().advantages = {};
    if (!extras.returns) bare->grid().returns = {};
    CHECK(update_with(*with.learner, batch).steps == 1);
    CHECK(update_with(*without.learner, whole_batch(bare)).steps == 1);
    CHECK(same_model(*with.learner, *without.learner));
    for (auto member : {&Grid::advantages, &Grid::returns}) {
      if ((bare->grid().*member).empty()) continue;
      auto lacking = std::make_shared<Rollout>(*bare);
      lacking->grid().*member = {};
      CHECK_THROWS_AS(with.learner->stager()->stage(whole_batch(lacking)), InvariantError);
    }
  }
}

TEST_CASE("learner: with algorithm.incomplete \"drop\" sequences without a terminal state are not trained on") {
  RunConfig config = small_config();
  config.algorithm.advantage = "grpo";
  config.algorithm.incomplete = "drop";
  Pair pair(config, discrete_spec());
  CHECK(update_with(*pair.learner, episodes_batch(pair, 1)).steps == 1);
  const LearnerState before = pair.learner->save();
  const UpdateReport report = update_with(*pair.learner, pair.batch(1));  // no episode ends
  CHECK(report.empty());
  CHECK_FALSE(report.failed());
  CHECK(report.epochs == 0);
  for (const char* name : {"advantage_mean", "return_mean", "explained_variance"})
    CHECK_FALSE(report.metrics.contains(name));
  CHECK((pair.learner->save().model == before.model));
  CHECK((pair.learner->save().optimizer == before.optimizer));
}

TEST_CASE("learner: with group_by \"task\" only sequences of the same task are compared") {
  RunConfig config = small_config();
  config.algorithm.advantage = "grpo";
  Pair batch(config, with_tasks(discrete_spec()));
  config.algorithm.group_by = "task";
  Pair task(config, with_tasks(discrete_spec()));
  const SuperBatch super_batch = episodes_batch(task, 1);
  const UpdateReport a = update_with(*batch.learner, super_batch), b = update_with(*task.learner, super_batch);
  CHECK(a.metrics.at("advantage_std") != b.metrics.at("advantage_std"));
  CHECK_THROWS_WITH_AS(make_learner(config, discrete_spec()),
                       "algorithm.group_by: \"task\", but made-up has no tasks; use \"batch\"", ConfigError);
}

TEST_CASE("learner: an estimator that needs probabilities of categories refuses continuous actions") {
  RunConfig config = small_config();
  config.algorithm.advantage = "optimal_token_baseline";
  CHECK_THROWS_WITH_AS(make_learner(config, continuous_spec()),
                       "algorithm.advantage: \"optimal_token_baseline\" needs probabilities of categories, but the "
                       "actions of made-up are continuous",
                       ConfigError);
}

TEST_CASE("learner: with rollout correction, ratios are relative to the policy at the start of the update") {
  RunConfig config = small_config();
  config.algorithm.rollout_correction = R"({"is": "token", "is_threshold": 1.1})";
  Pair pair(config, discrete_spec());
  const UpdateReport report = update_with(*pair.learner, episodes_batch(pair, 1, 0.5f));
  CHECK(report.metrics.at("kl") == doctest::Approx(0.0).epsilon(1e-9));  // in the only step the ratio is 1
  CHECK(report.metrics.at("rollout_kl_k3") > 0.01);
  CHECK(report.metrics.at("rollout_weight_max") > 1.1);
}

TEST_CASE("learner: an adaptive KL coefficient follows the KL and is saved") {
  RunConfig config = small_config();
  config.algorithm.kl_coef = 0.5;
  config.algorithm.kl_controller = "adaptive";
  config.algorithm.kl_target = 1e-6;
  config.algorithm.kl_horizon = 10'000;
  Pair pair(config, discrete_spec());
  const SuperBatch batch = episodes_batch(pair, 1);
  CHECK(update_with(*pair.learner, batch).metrics.at("kl_coef") == 0.5);
  // The change depends on the samples of the update, not on trainer.super_batch.
  REQUIRE(batch.samples != static_cast<uint64_t>(config.trainer.super_batch));
  const double raised = 0.5 * (1 + 0.2 * static_cast<double>(batch.samples) / 10'000);
  CHECK(update_with(*pair.learner, batch).metrics.at("kl_coef") == doctest::Approx(raised));
  const auto other = make_learner(config, pair.spec);
  other->load(pair.learner->save());
  CHECK(update_with(*other, batch).metrics == update_with(*pair.learner, batch).metrics);
}

namespace {

// In every third step the episode ended inside the chunk of two. `filler` is stored for decisions that were not
// executed.
SuperBatch cut_short_batch(Pair& pair, float filler) {
  const SuperBatch batch = episodes_batch(pair, 1, 0.1f);
  auto rollout = std::make_shared<Rollout>(*batch.parts[0].rollout);
  rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
  rollout->grid().log_probs = rollout->grid().log_probs.clone();
  rollout->grid().actions = rollout->grid().actions.clone();
  const auto executed = rollout->grid().executed.mutable_view<int32_t>();
  const int64_t dims = pair.spec.action.dims(), decisions = pair.spec.action.decisions();
  for (size_t i = 0; i < executed.size(); ++i) {
    executed[i] = i % 3 == 0 ? 1 : 2;
    for (int64_t d = executed[i] * dims; d < decisions; ++d) {
      const size_t at = i * static_cast<size_t>(decisions) + static_cast<size_t>(d);
      rollout->grid().log_probs.mutable_view<float>()[at] = filler;
      if (pair.spec.action.kind == ActionKind::continuous)
        rollout->grid().actions.mutable_view<float>()[at] = filler;
      else
        rollout->grid().actions.mutable_view<int32_t>()[at] = std::isnan(filler) ? 1'000'000 : 0;
    }
  }
  return whole_batch(rollout);
}

}  // namespace

TEST_CASE("learner: the numbers stored for decisions that were not executed do not change an update") {
  struct Choice {
    const char* advantage;
    const char* surrogate;
    const char* ratio;
    const char* correction;
    double kl_coef;
  };
  const Choice choices[] = {{"gae", "clip", "joint", "{}", 0},
                            {"gae", "clip", "per_dimension", "{}", 0.1},
                            {"gae", "clip", "per_dimension", R"({"is": "token"})", 0},
                            {"gae", "clip", "joint", R"({"is": "sequence"})", 0.1},
                            {"vtrace", "clip", "joint", "{}", 0},
                            {"gae", "gspo", "per_dimension", "{}", 0},
                            {"optimal_token_baseline", "clip", "per_dimension", "{}", 0},
                            {"optimal_token_baseline", "clip", "joint", "{}", 0}};
  for (const bool is_continuous : {false, true}) {
    for (const Choice& choice : choices) {
      if (is_continuous && std::string(choice.advantage) == "optimal_token_baseline") continue;
      CAPTURE(is_continuous);
      CAPTURE(choice.advantage);
      CAPTURE(choice.surrogate);
      CAPTURE(choice.ratio);
      CAPTURE(choice.correction);
      RunConfig config = small_config();
      config.trainer.epochs = 2;
      config.trainer.minibatches = 2;
      config.trainer.micro_batch = 5;
      config.algorithm.advantage = choice.advantage;
      config.algorithm.surrogate = choice.surrogate;
      config.algorithm.ratio = choice.ratio;
      config.algorithm.rollout_correction = choice.correction;
      config.algorithm.kl_coef = choice.kl_coef;
      config.algorithm.entropy_coef = 0.01;
      const EnvSpec spec = is_continuous ? spec_of(ActionKind::continuous, {0, 0}, 2) : token_spec();
      Pair zeros(config, spec), nans(config, spec), all(config, spec);
      const UpdateReport a = update_with(*zeros.learner, cut_short_batch(zeros, 0.0f));
      const UpdateReport b = update_with(*nans.learner, cut_short_batch(nans, nan()));
      update_with(*all.learner, episodes_batch(all, 1, 0.1f));
      CHECK(a.steps > 0);
      CHECK(a.metrics == b.metrics);
      for (const auto& [name, value] : a.metrics) CHECK_MESSAGE(std::isfinite(value), name);
      CHECK(same_model(*zeros.learner, *nans.learner));
      CHECK_FALSE(same_model(*zeros.learner, *all.learner));
    }
  }
}

TEST_CASE("learner: if all decisions were executed, a rollout with `executed` gives the same update as one without") {
  for (const char* ratio : {"joint", "per_dimension"}) {
    RunConfig config = small_config();
    config.algorithm.ratio = ratio;
    Pair with(config, token_spec()), without(config, token_spec());
    const SuperBatch batch = without.batch(1);
    auto rollout = std::make_shared<Rollout>(*batch.parts[0].rollout);
    rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
    std::ranges::fill(rollout->grid().executed.mutable_view<int32_t>(), 2);
    update_with(*with.learner, whole_batch(rollout));
    update_with(*without.learner, batch);
    CHECK(same_model(*with.learner, *without.learner));
  }
}

TEST_CASE("learner: a rollout with more executed steps than a chunk has is refused") {
  Pair pair(small_config(), token_spec());
  const SuperBatch batch = pair.batch(1);
  auto rollout = std::make_shared<Rollout>(*batch.parts[0].rollout);
  rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
  rollout->grid().executed.mutable_view<int32_t>()[3] = 3;
  CHECK_THROWS_AS(pair.learner->stager()->stage(whole_batch(rollout)), InvariantError);
}
