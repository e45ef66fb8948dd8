#pragma once
// Synthetic: a load generator rather than a task: a large image and a few numbers per step, a configurable step time,
// and injected faults (exceptions, stalls, NaN). The reward measures how close the action is to the numbers, so that
// learning is visible. A row class, see envs/row.h.

#include <array>
#include <vector>

#include "envs/batched.h"
#include "envs/params.h"

namespace troupe {

class Synthetic {
 public:
  static constexpr size_t kNumbers = 7;

  struct Options {
    int32_t image_height = 224, image_width = 224;
    int32_t action_dims = 7;
    int32_t episode_length = 100;
    int64_t step_us = 0;
    bool busy = true;                    // true: compute during the step time; false: sleep
    double exception_probability = 0.0;  // per step
    double stall_probability = 0.0;      // per step
    int64_t stall_ms = 100;
    double nan_probability = 0.0;  // per step: in the reward or in the observation
    std::vector<uint8_t> pattern;  // the image of frame f begins at byte f of it

    static Options read(EnvParams& params);
    size_t image_bytes() const { return 3 * static_cast<size_t>(image_height) * static_cast<size_t>(image_width); }
  };
  struct State {
    uint32_t frame = 0;
    uint32_t broken = 0;  // 1 = the observation contains NaN
    std::array<float, kNumbers> numbers{};
  };
  State state;

  explicit Synthetic(const Options& options) : options_(&options) {}
  static EnvSpec spec(const Options& options);
  void reset(Rng& rng);
  RowStep step(std::span<const float> action, Rng& rng);
  void observe(RowWriter out) const;

 private:
  const Options* options_;
};

extern template class Batched<Synthetic>;

}  // namespace troupe
