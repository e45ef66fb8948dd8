#pragma once
// An environment that fails when its test says so.

#include <cmath>
#include <stdexcept>

#include "envs/batched.h"
#include "tests/envs/fixtures.h"

namespace troupe::test {

// Counts steps. At step `at` it fails as its options say.
class Faulty {
 public:
  enum class Failure { none, throws, throws_int, nan_reward, infinite_observation, wrong_dtype, reset_throws };
  struct Options {
    Failure failure = Failure::none;
    int32_t at = 2;
    bool* healed = nullptr;  // if true, resets no longer throw
    int* resets = nullptr;   // counts them
  };
  struct State {
    int32_t count = 0;
  };
  State state;

  explicit Faulty(const Options& options) : options_(&options) {}
  static EnvSpec spec(int32_t limit, int32_t chunk = 1) {
    EnvSpec spec;
    spec.id = "Faulty";
    spec.observations = {{"count", DType::f32, {1}}};
    spec.action.bins = {2};
    spec.action.chunk = chunk;
    spec.max_episode_steps = limit;
    return spec;
  }
  void reset(Rng&) {
    if (options_->failure == Failure::reset_throws && !*options_->healed) throw std::runtime_error("no licence");
    state.count = 0;
    if (options_->resets != nullptr) ++*options_->resets;
  }
  RowStep step(int32_t action, Rng&) {
    ++state.count;
    const bool now = state.count == options_->at && action == 1;
    if (now && options_->failure == Failure::throws)
      throw std::runtime_error("first\nsecond " + std::string(1000, 'x'));
    if (now && options_->failure == Failure::throws_int) throw 7;
    return {.reward = now && options_->failure == Failure::nan_reward ? NAN : 1.0f,
            .terminated = state.count == 5,
            .success = true};
  }
  void observe(RowWriter out) const {
    if (options_->failure == Failure::wrong_dtype && state.count > 0) out.array<uint8_t>();
    const bool now = options_->failure == Failure::infinite_observation && state.count == options_->at;
    out.array<float>()[0] = now ? INFINITY : static_cast<float>(state.count);
  }

 private:
  const Options* options_;
};

}  // namespace troupe::test
