#include "algorithms/gae.h"

#include "algorithms/segment.h"

namespace troupe {

namespace {

// A_t = r + gamma V' - V + gamma lambda A_{t+1} for one tile of one row; `later` holds A_{t+1}.
template <bool HasVoid, class Count>
inline void tile(const GaeInput& in, int64_t at, Count count, bool last, const float* later,
                 float* __restrict advantages, float* __restrict returns) {
  SegmentFlags flags;
  read_flags<HasVoid>(in, at, count, last, flags);
  const float* rewards = in.rewards.data() + at;
  const float* values = in.values.data() + at;
  const float* next_values = in.next_values.data() + at;
  const float gamma = in.gamma;
  const float decay = in.gamma * in.lambda;
  for (int64_t i = 0; i < count; ++i) {
    const float value = select(flags.live[i], values[i]);
    const float next_value = select(flags.link[i] | flags.bootstrap[i], next_values[i]);
    const float delta = select(flags.live[i], rewards[i]) + gamma * next_value - value;
    const float advantage = delta + decay * select(flags.link[i], later[i]);
    advantages[i] = advantage;
    returns[i] = advantage + value;
  }
}

// Row by row from the last step, and within a row from the last column: memory is walked downward.
template <bool HasVoid>
void run(const GaeInput& in, float* advantages, float* returns) {
  static constexpr float kZeros[kTile] = {};
  for (int64_t t = in.steps - 1; t >= 0; --t) {
    const bool last = t == in.steps - 1;
    for_each_tile_backward(in.columns, [&](int64_t first, auto count) {
      const int64_t at = t * in.columns + first;
      const float* later = last ? kZeros : advantages + at + in.columns;
      tile<HasVoid>(in, at, count, last, later, advantages + at, returns + at);
    });
  }
}

}  // namespace

void gae(const GaeInput& in, std::span<float> advantages, std::span<float> returns) {
  check_segment(in, advantages.size(), returns.size());
  if (in.valid.empty()) {
    run<false>(in, advantages.data(), returns.data());
  } else {
    run<true>(in, advantages.data(), returns.data());
  }
}

}  // namespace troupe
