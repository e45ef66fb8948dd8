// Policies and learners with networks of model.kind "net", on the built-in environments.

#include <cmath>
#include <string>

#include "envs/make/make_env.h"
#include "models/networks/network_layout.h"
#include "models/torch/learning/make_model.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/loop.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig config_of(const std::string& env, const std::string& net) {
  RunConfig config;
  config.env.id = env;
  config.env.rows = 4;
  config.model.kind = "net";
  config.model.net = net;
  config.rollout.length = 8;
  config.trainer.super_batch = 32;
  config.trainer.minibatches = 2;
  config.trainer.epochs = 2;
  return config;
}

// Acts for one rollout and learns from it; returns the learner's metrics.
std::map<std::string, double> learn_once(const RunConfig& config, Policy& policy, Learner& learner) {
  Sampler sampler(config, policy, make_env(config.env), 3);
  const RolloutPtr rollout = sampler.collect(config.rollout.length);
  auto staged = learner.stager()->stage(whole(rollout));
  CHECK(staged->samples == 32);
  const UpdateReport report = learner.update(*staged, 0.5);
  CHECK(report.skipped == 0);
  CHECK(report.steps == 4);
  return report.metrics;
}

ActInput first_observations(const RunConfig& config, int64_t state_size) {
  const auto env = make_env(config.env);
  EnvStep step = EnvStep::allocate(env->spec(), env->rows());
  env->reset(9, 0, step);
  ActInput input;
  input.observations = step.observations;
  input.action_mask = step.action_mask;
  input.seeds = Array(DType::i64, {env->rows()});
  input.deterministic = Array(DType::u8, {env->rows()});
  if (state_size == 0) return input;
  input.state = Array(DType::f32, {env->rows(), state_size});
  input.starts = Array(DType::u8, {env->rows()});
  std::ranges::fill(input.starts.mutable_view<uint8_t>(), 1);
  return input;
}

void check_model(const RunConfig& config) {
  CAPTURE(config.env.id);
  CAPTURE(config.model.net);
  const EnvSpec spec = make_env(config.env)->spec();
  const int64_t state_size = network_layout(config.model, spec).state_size;
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  CHECK_FALSE(policy->signature()->first_difference(*learner->published_signature()));
  for (const auto& [name, value] : learn_once(config, *policy, *learner)) {
    INFO(name);
    CHECK(std::isfinite(value));
  }
  // Weights that were saved, loaded and published give the same outputs.
  const auto other = make_learner(config, spec);
  other->load(learner->save());
  const auto fresh = make_policy(config, spec);
  const ActInput input = first_observations(config, state_size);
  const ActOutput before = policy->act(input);
  policy->load(*learner->snapshot({0, 1}));
  fresh->load(*other->snapshot({0, 1}));
  const ActOutput a = policy->act(input), b = fresh->act(input);
  CHECK_FALSE(a.log_probs == before.log_probs);
  CHECK(a.actions == b.actions);
  CHECK(a.log_probs == b.log_probs);
  CHECK(a.values == b.values);
  CHECK(a.state == b.state);
  CHECK(a.state.size() == config.env.rows * state_size);
  const Array values = policy->values(input.observations, input.state);
  for (int64_t i = 0; i < config.env.rows; ++i)
    CHECK(values.view<float>()[i] == doctest::Approx(a.values.view<float>()[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE("net: every built-in environment has a default network that acts and learns") {
  for (const EnvInfo& env : list_environments()) check_model(config_of(env.id, "{}"));
}

TEST_CASE("net: every built-in environment has a recurrent network that acts and learns") {
  for (const EnvInfo& env : list_environments()) {
    RunConfig config = config_of(env.id, R"({"core": {"kind": "lstm", "size": 8}, "value_trunk": [8]})");
    check_model(config);
    if (env.id == "Synthetic") continue;
    config.model.net = R"({"core": {"kind": "gru", "size": 8}})";
    config.model.sequence = 4;
    config.model.burn_in = 1;
    config.model.normalize_observations = config.model.normalize_returns = true;
    check_model(config);
  }
}

TEST_CASE("net: the error about a request without a recurrent state names what is missing") {
  const RunConfig config = config_of("CartPole-v1", R"({"core": {"kind": "gru", "size": 8}})");
  const auto policy = make_policy(config, make_env(config.env)->spec());
  ActInput input = first_observations(config, 8);
  input.state = {};
  CHECK_THROWS_WITH_AS(policy->act(input), "recurrent state is [0], expected [4, 8]", InvariantError);
  CHECK_THROWS_WITH_AS(policy->values(input.observations), "recurrent state is [0], expected [4, 8]", InvariantError);
  input = first_observations(config, 8);
  input.starts = {};
  CHECK_THROWS_WITH_AS(policy->act(input), "starts of episodes are [0], expected [4]", InvariantError);
}

TEST_CASE("net: for a row that starts an episode the state of a request is replaced by zeros") {
  const RunConfig config = config_of("CartPole-v1", R"({"core": {"kind": "lstm", "size": 8}})");
  const auto policy = make_policy(config, make_env(config.env)->spec());
  ActInput input = first_observations(config, 16);
  const ActOutput zeros = policy->act(input);
  std::ranges::fill(input.state.mutable_view<float>(), 2.0f);
  const ActOutput started = policy->act(input);
  CHECK(started.log_probs == zeros.log_probs);
  CHECK(started.state == zeros.state);
  std::ranges::fill(input.starts.mutable_view<uint8_t>(), 0);
  CHECK_FALSE(policy->act(input).state == zeros.state);
}

TEST_CASE("net: settings that a recurrent model does not support are refused") {
  const auto refused = [](auto change) {
    RunConfig config = config_of("CartPole-v1", R"({"core": {"kind": "lstm"}})");
    change(config);
    try {
      make_learner(config, make_env(config.env)->spec());
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refused([](RunConfig&) {}) == "accepted");
  CHECK(refused([](RunConfig& c) { c.model.sequence = 3; }).starts_with("model.sequence: 3 does not divide"));
  CHECK(refused([](RunConfig& c) { c.algorithm.surrogate = "gspo"; }) ==
        "model.net.core: is trained on sequences of 8 steps (model.sequence), but algorithm.surrogate \"gspo\" needs "
        "whole episodes; set algorithm.surrogate to one that reads single steps, like \"clip\"");
  CHECK(refused([](RunConfig& c) { c.trainer.minibatches = 5; }) ==
        "trainer.minibatches: 5 is more than the 4 sequences of trainer.super_batch 32 / 8 steps (model.sequence); use "
        "at most 4");
}
