// The learning side alone reaches a stated score: environment, policy, GAE and learner in one thread.

#include <algorithm>
#include <chrono>
#include <numeric>

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

Result train(const RunConfig& config, int64_t updates) {
  set_compute_threads(1);
  auto env = make_env(config.env);
  auto policy = make_policy(config, env->spec());
  auto learner = make_learner(config, env->spec());
  Sampler sampler(config, *policy, std::move(env), config.seed);
  double sampling = 0, updating = 0;
  for (int64_t i = 0; i < updates; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const RolloutPtr rollout = sampler.collect(config.trainer.super_batch / config.env.rows);
    const auto middle = std::chrono::steady_clock::now();
    auto staged = learner->stage(whole(rollout));
    learner->update(*staged, static_cast<double>(i) / static_cast<double>(updates));
    policy->load(*learner->snapshot({0, static_cast<uint64_t>(i + 1)}));
    sampling += std::chrono::duration<double>(middle - start).count();
    updating += std::chrono::duration<double>(std::chrono::steady_clock::now() - middle).count();
  }
  Sampler greedy(config, *policy, make_env(config.env), config.seed + 1000);
  while (greedy.finished_returns().size() < 100) greedy.collect(128, true);
  Result result{mean(sampler.finished_returns(), 100), mean(greedy.finished_returns(), 100)};
  MESSAGE(config.env.id << " seed " << config.seed << ": training " << result.train_return << ", greedy "
                        << result.greedy_return << ", sampling " << sampling << " s, updating " << updating << " s");
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
