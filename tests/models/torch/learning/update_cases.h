#pragma once
// Updates of learners that have to agree between the host form, the device form on the CPU and the device form on a
// GPU.

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "algorithms/advantages/advantages.h"
#include "algorithms/losses/surrogate.h"
#include "models/torch/learning/make_model.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

namespace troupe::test {

inline void check_same(const UpdateReport& device, const UpdateReport& host, double tolerance) {
  CHECK(device.steps == host.steps);
  CHECK(device.skipped == host.skipped);
  CHECK(device.epochs == host.epochs);
  REQUIRE(device.metrics.size() == host.metrics.size());
  for (const auto& [name, value] : device.metrics) {
    CAPTURE(name);
    const double wanted = host.metrics.at(name);
    CHECK(std::isnan(value) == std::isnan(wanted));
    if (!std::isnan(wanted)) CHECK(value == doctest::Approx(wanted).epsilon(tolerance).scale(0.01));
  }
}

// A rollout in which episodes end, so that it has several sequences per column.
inline std::shared_ptr<Rollout> episodes_rollout(const RunConfig& config, const EnvSpec& spec, uint64_t seed) {
  const auto policy = make_policy(config, spec);
  auto rollout = random_rollout(spec, *policy, 9, 8, seed);
  Rng rng(seed);
  for (int64_t i = 0; i < 72; ++i) {
    rollout->grid().terminated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.2f;
    rollout->grid().truncated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.1f;
    rollout->grid().valid.mutable_view<uint8_t>()[i] = rng.uniform() < 0.9f;
  }
  return rollout;
}

inline std::vector<EnvSpec> all_specs() { return {discrete_spec(), continuous_spec(), token_spec(), masked_spec()}; }

// One config for each estimator and each surrogate, and for what changes their inputs.
inline std::vector<RunConfig> algorithm_configs() {
  std::vector<RunConfig> configs;
  for (const AdvantageEntry& entry : advantage_table()) {
    configs.push_back(small_config());
    configs.back().algorithm.advantage = entry.name;
  }
  for (const SurrogateEntry& entry : surrogate_table()) {
    configs.push_back(small_config());
    configs.back().algorithm.surrogate = entry.name;
  }
  configs.push_back(small_config());
  configs.back().algorithm.advantage = "vtrace";
  configs.push_back(small_config());
  configs.back().algorithm.rollout_correction =
      R"({"is": "sequence", "rejection": "token_k1", "rejection_threshold": "0.8_1.25"})";
  configs.push_back(small_config());
  configs.back().algorithm.advantage = "grpo";
  configs.back().algorithm.incomplete = "drop";
  return configs;
}

// Calls `check` with a config, its spec and a batch: for each kind of actions, and each size of micro-batches.
template <class Check>
void for_each_kind_of_actions(const Check& check) {
  for (const EnvSpec& spec : all_specs()) {
    RunConfig config = small_config();
    config.trainer.epochs = 2;
    config.trainer.minibatches = 3;
    config.trainer.weight_decay = 0.01;
    config.model.normalize_observations = config.model.normalize_returns = true;
    config.algorithm.entropy_coef = 0.02;
    config.algorithm.kl_coef = 0.1;
    for (const int64_t micro_batch : {0, 7}) {
      config.trainer.micro_batch = micro_batch;
      CAPTURE(spec.action.decisions());
      CAPTURE(micro_batch);
      check(config, spec, whole_batch(episodes_rollout(config, spec, 1)));
    }
  }
}

// The same for each of algorithm_configs(), with both kinds of ratios.
template <class Check>
void for_each_algorithm(const Check& check) {
  for (RunConfig config : algorithm_configs()) {
    for (const char* ratio : {"joint", "per_dimension"}) {
      config.algorithm.ratio = ratio;
      config.trainer.minibatches = 2;
      CAPTURE(config.algorithm.advantage);
      CAPTURE(config.algorithm.surrogate);
      CAPTURE(config.algorithm.rollout_correction);
      CAPTURE(ratio);
      check(config, token_spec(), whole_batch(episodes_rollout(config, token_spec(), 3)));
    }
  }
}

// Configs whose environments are stepped, with feed-forward and recurrent networks.
inline std::vector<RunConfig> environment_configs() {
  const auto grid_world = [] {
    RunConfig config;
    config.env.id = "GridWorld";
    config.env.params = R"({"size": 5, "max_episode_steps": 7})";
    config.model.kind = "net";
    config.model.net = R"({"trunk": [8], "core": {"kind": "gru", "size": 8}})";
    config.model.sequence = 8;
    config.model.burn_in = 2;
    config.rollout.length = 16;
    return config;
  };
  std::vector<RunConfig> configs = {load_config("configs/cartpole.json"), load_config("configs/pendulum.json"),
                                    load_config("configs/token_reach.json"),
                                    load_config("configs/cartpole_vtrace.json"), grid_world()};
  for (RunConfig& config : configs) {
    config.env.rows = 6;
    config.trainer.minibatches = 3;
    config.trainer.epochs = 2;
  }
  return configs;
}

}  // namespace troupe::test
