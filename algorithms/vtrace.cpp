#include "algorithms/vtrace.h"

#include <cmath>
#include <limits>

#include "algorithms/segment.h"

namespace troupe {

namespace {

struct Factors {
  float gamma;
  float trace;  // gamma * lambda
  float rho_bar;
  float c_bar;
  float pg_rho_bar;
  uint32_t multiply_pg_rho;  // mask
};

float bound_or_infinity(float bound) { return bound <= 0 ? std::numeric_limits<float>::infinity() : bound; }

inline float at_most(float x, float bound) { return x > bound ? bound : x; }  // keeps NaN

Factors check(const VtraceInput& in, std::size_t vs, std::size_t pg_advantages) {
  check_segment(in, vs, pg_advantages);
  TROUPE_CHECK(in.log_rho.size() == in.rewards.size(), "log_rho", in.log_rho.size(), "want steps * columns",
               in.rewards.size());
  const float rho_bar = bound_or_infinity(in.rho_bar);
  const float c_bar = bound_or_infinity(in.c_bar);
  const float pg_rho_bar = bound_or_infinity(in.pg_rho_bar);
  TROUPE_CHECK(rho_bar >= c_bar, "rho_bar", in.rho_bar, "c_bar", in.c_bar);  // the paper's condition; false for NaN
  TROUPE_CHECK(!std::isnan(in.pg_rho_bar), "pg_rho_bar", in.pg_rho_bar);
  return {in.gamma, in.gamma * in.lambda, rho_bar, c_bar, pg_rho_bar, mask_of(in.multiply_pg_rho)};
}

// vs = V + delta + gamma lambda c (vs_{t+1} - V_{t+1}) for one tile of one row; later_* are the row after it.
template <bool HasVoid, class Count>
inline void tile(const VtraceInput& in, const Factors& k, int64_t at, Count count, bool last, const float* later_values,
                 const float* later_vs, float* __restrict vs, float* __restrict pg_advantages) {
  SegmentFlags flags;
  read_flags<HasVoid>(in, at, count, last, flags);
  const float* log_rho = in.log_rho.data() + at;
  const float* rewards = in.rewards.data() + at;
  const float* values = in.values.data() + at;
  const float* next_values = in.next_values.data() + at;
  for (int64_t i = 0; i < count; ++i) {
    const float ratio = ratio_of(select(flags.live[i], log_rho[i]));
    const float reward = select(flags.live[i], rewards[i]);
    const float value = select(flags.live[i], values[i]);
    const float bootstrap = select(flags.bootstrap[i], next_values[i]);
    const float next_value = select(flags.link[i], later_values[i], bootstrap);
    const float next_vs = select(flags.link[i], later_vs[i], bootstrap);
    const float delta = at_most(ratio, k.rho_bar) * (reward + k.gamma * next_value - value);
    const float weight = select(k.multiply_pg_rho, at_most(ratio, k.pg_rho_bar), 1.0f);
    vs[i] = value + (delta + k.trace * at_most(ratio, k.c_bar) * (next_vs - next_value));
    pg_advantages[i] = weight * (reward + k.gamma * next_vs - value);
  }
}

template <bool HasVoid>
void run(const VtraceInput& in, const Factors& k, float* vs, float* pg_advantages) {
  static constexpr float kZeros[kTile] = {};
  for (int64_t t = in.steps - 1; t >= 0; --t) {
    const bool last = t == in.steps - 1;
    for_each_tile_backward(in.columns, [&](int64_t first, auto count) {
      const int64_t at = t * in.columns + first;
      const float* later_values = last ? kZeros : in.values.data() + at + in.columns;
      const float* later_vs = last ? kZeros : vs + at + in.columns;
      tile<HasVoid>(in, k, at, count, last, later_values, later_vs, vs + at, pg_advantages + at);
    });
  }
}

}  // namespace

void vtrace(const VtraceInput& in, std::span<float> vs, std::span<float> pg_advantages) {
  const Factors k = check(in, vs.size(), pg_advantages.size());
  if (in.valid.empty()) {
    run<false>(in, k, vs.data(), pg_advantages.data());
  } else {
    run<true>(in, k, vs.data(), pg_advantages.data());
  }
}

}  // namespace troupe
