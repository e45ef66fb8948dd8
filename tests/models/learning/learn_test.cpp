// Training without actors reaches a stated score: environment, policy, GAE and learner in one thread.

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>

#include "actors/config/run_config.h"
#include "envs/batched.h"
#include "envs/row.h"
#include "tests/models/learning/loop.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

double mean(const std::vector<double>& x, size_t last) {
  const size_t n = std::min(last, x.size());
  return n == 0 ? 0.0
                : std::accumulate(x.end() - static_cast<std::ptrdiff_t>(n), x.end(), 0.0) / static_cast<double>(n);
}

struct Result {
  double train_return = 0;
  double greedy_return = 0;
};

using MakeEnv = std::unique_ptr<Env> (*)(const RunConfig&);

std::unique_ptr<Env> env_of(const RunConfig& config) { return make_env(config.env); }

// A memory task. The first observation shows which of two actions is right, and the action five steps later gets reward
// 1 if it is that one.
struct Recall {
  struct State {
    int32_t cue = 0;
    int32_t step = 0;
  };
  State state;

  static constexpr int32_t kSteps = 6;
  static EnvSpec spec() {
    EnvSpec spec;
    spec.id = "Recall";
    spec.observations = {{"signs", DType::f32, {2}}};
    spec.action.bins = {2};
    return spec;
  }
  void reset(Rng& rng) { state = {static_cast<int32_t>(rng.below(2)), 0}; }
  RowStep step(int32_t action, Rng& /*rng*/) {
    const bool last = ++state.step == kSteps;
    return {.reward = last && action == state.cue ? 1.0f : 0.0f, .terminated = last};
  }
  void observe(RowWriter out) const {
    const auto signs = out.array<float>();
    signs[0] = state.step > 0 ? 0.0f : state.cue == 1 ? 1.0f : -1.0f;
    signs[1] = state.step == kSteps - 1 ? 1.0f : 0.0f;
  }
};

std::unique_ptr<Env> recall_of(const RunConfig& config) {
  return std::make_unique<Batched<Recall>>(Recall::spec(), config.env.rows);
}

Result train(const RunConfig& config, int64_t updates, MakeEnv make = env_of) {
  set_compute_threads(1);
  auto env = make(config);
  const std::string id = env->spec().id;
  auto policy = make_policy(config, env->spec());
  auto learner = make_learner(config, env->spec());
  Sampler sampler(config, *policy, std::move(env), config.seed);
  double sampling = 0, updating = 0;
  for (int64_t i = 0; i < updates; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const RolloutPtr rollout = sampler.collect(config.trainer.super_batch / config.env.rows);
    const auto middle = std::chrono::steady_clock::now();
    auto staged = learner->stager()->stage(whole(rollout));
    learner->update(*staged, static_cast<double>(i) / static_cast<double>(updates));
    policy->load(*learner->snapshot({0, static_cast<uint64_t>(i + 1)}));
    sampling += std::chrono::duration<double>(middle - start).count();
    updating += std::chrono::duration<double>(std::chrono::steady_clock::now() - middle).count();
  }
  Sampler greedy(config, *policy, make(config), config.seed + 1000);
  while (greedy.finished_returns().size() < 100) greedy.collect(128, true);
  Result result{mean(sampler.finished_returns(), 100), mean(greedy.finished_returns(), 100)};
  MESSAGE(id << ' ' << config.model.kind << " seed " << config.seed << ": training " << result.train_return
             << ", greedy " << result.greedy_return << ", sampling " << sampling << " s, updating " << updating
             << " s");
  return result;
}

}  // namespace

TEST_CASE("learner: a plain PPO loop solves CartPole") {
  for (uint64_t seed : {1, 2, 3}) {
    RunConfig config;
    config.seed = seed;
    config.env.rows = 32;
    config.trainer.super_batch = 1024;
    config.trainer.epochs = 8;
    config.trainer.policy_lr = config.trainer.value_lr = 1e-3;
    config.algorithm.gamma = 0.98;
    config.algorithm.lambda = 0.9;
    CHECK(train(config, 150).greedy_return >= 475);
  }
}

TEST_CASE("learner: a network of kind net solves CartPole") {
  RunConfig config;
  config.seed = 1;
  config.model.kind = "net";
  config.env.rows = 32;
  config.trainer.super_batch = 1024;
  config.trainer.epochs = 8;
  config.trainer.policy_lr = config.trainer.value_lr = 1e-3;
  config.algorithm.gamma = 0.98;
  config.algorithm.lambda = 0.9;
  CHECK(train(config, 150).greedy_return >= 475);
}

TEST_CASE("learner: a recurrent network solves a memory task that an MLP cannot solve") {
  const auto config_of = [](const char* kind) {
    RunConfig config;
    config.seed = 1;
    config.env.rows = 32;
    config.model.kind = kind;
    config.rollout.length = 32;
    config.trainer.super_batch = 1024;
    config.trainer.epochs = 4;
    config.trainer.policy_lr = config.trainer.value_lr = 2e-3;
    config.algorithm.gamma = 0.95;
    return config;
  };
  RunConfig lstm = config_of("net");
  lstm.model.net = R"({"encoders": {"*": {"hidden": []}}, "trunk": [], "core": {"kind": "lstm", "size": 32}})";
  CHECK(train(lstm, 60, recall_of).greedy_return >= 0.95);
  CHECK(train(config_of("mlp"), 60, recall_of).greedy_return <= 0.6);
}
