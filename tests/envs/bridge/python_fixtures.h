#pragma once
// Environments of tests/envs/bridge/environments.py, and one environment with the results of its last step.

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "envs/make/make_env.h"
#include "tests/envs/fixtures.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

namespace troupe::test {

inline EnvConfig python_config(const std::string& name, int64_t rows, const std::string& params = "{}",
                               int64_t processes = 1) {
  EnvConfig config;
  config.id = name.starts_with("gym:") ? name : "py:tests/envs/bridge/environments.py:" + name;
  config.rows = rows;
  config.params = params;
  config.processes = processes;
  config.python = test_python();
  return config;
}

// Whether the Python for tests has a package; says so if not. It is asked once for each package.
inline bool can_use(const std::string& package) {
  static std::map<std::string, bool> known;
  const auto [found, unknown] = known.try_emplace(package);
  if (unknown) found->second = python_has(package);
  if (found->second) return true;
  MESSAGE("skipped: " << test_python() << " has no " << package);
  return false;
}

struct Stepping {
  std::unique_ptr<Env> env;
  EnvStep step;
  uint64_t first_row = 0, t = 0;

  explicit Stepping(const EnvConfig& config, uint64_t seed = 1, uint64_t first = 0)
      : env(make_env(config)), step(EnvStep::allocate(env->spec(), env->rows())), first_row(first) {
    env->reset(seed, first_row, step);
  }
  void advance() { env->step(random_actions(*env, step, t++, first_row), step); }
  // A step with the same integer as every action.
  void act(int32_t action) {
    Array actions(DType::i32, env->spec().action.shape().prepended(env->rows()));
    for (int32_t& each : actions.mutable_view<int32_t>()) each = action;
    env->step(actions, step);
    ++t;
  }
  Failed failed(size_t i = 0) const { return static_cast<Failed>(step.failed.view<uint8_t>()[i]); }
  bool terminated(size_t i = 0) const { return step.terminated.view<uint8_t>()[i] != 0; }
  bool truncated(size_t i = 0) const { return step.truncated.view<uint8_t>()[i] != 0; }
  bool success(size_t i = 0) const { return step.success.view<uint8_t>()[i] != 0; }
  float reward(size_t i = 0) const { return step.rewards.view<float>()[i]; }
  int32_t executed(size_t i = 0) const { return step.executed.view<int32_t>()[i]; }
  // Element `k` of the observation of row i.
  float observed(size_t i, size_t k, size_t array = 0) const {
    const Array& values = step.observations[array].second;
    return values.view<float>()[i * static_cast<size_t>(values.row_size()) + k];
  }
  float last_observed(size_t i, size_t k) const {
    const Array& values = step.final_observations[0].second;
    return values.view<float>()[i * static_cast<size_t>(values.row_size()) + k];
  }
};

// What make_env() says about a config that it refuses.
inline std::string refusal_of(const EnvConfig& config) {
  try {
    make_env(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace troupe::test
