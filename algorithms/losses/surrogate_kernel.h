#pragma once
// The one pass over tokens that all surrogates share, in tiles: `load` makes ratios, a rule makes loss and gradient,
// `finish` sums the diagnostics and writes. load and finish are compiled once for each instruction set, a rule's loop
// too. Internal to algorithms/.

#include <cstdint>

#include "algorithms/common/tile.h"
#include "algorithms/common/with_isa.h"
#include "algorithms/losses/surrogate.h"

namespace troupe {

inline constexpr int64_t kSurrogateTile = 128;

// Every loop runs over the whole tile; where there is no token, or a masked one, `live` is 0 and a token of ratio 1 and
// advantage 0 stands. Masks are all ones or all zeros.
struct SurrogateTile {
  explicit SurrogateTile(const class SurrogateJob& job);

  alignas(64) float log_prob[kSurrogateTile];
  alignas(64) float advantage[kSurrogateTile];
  alignas(64) float log_ratio[kSurrogateTile];  // clamped
  alignas(64) float ratio[kSurrogateTile];
  alignas(64) float k3[kSurrogateTile];  // ratio - 1 - log_ratio, without cancellation
  alignas(64) uint32_t live[kSurrogateTile];
  alignas(64) uint32_t beyond[kSurrogateTile];  // the clamp took effect
  alignas(64) double weight[kSurrogateTile];    // of the token's sequence
  // What a rule writes for every live token, without weights. A mask that it has nothing to say about stays 0.
  alignas(64) float loss[kSurrogateTile] = {};
  alignas(64) float grad[kSurrogateTile] = {};
  alignas(64) uint32_t clipped[kSurrogateTile] = {};
  alignas(64) uint32_t lower[kSurrogateTile] = {};
  alignas(64) uint32_t saturated[kSurrogateTile] = {};
};

// Where the clipped ratio stops counting. Clipping is active on strict inequality only.
struct RatioBounds {
  float low, high, dual;
};
// From clip_low and clip_high, which default to `clip`, and dual_clip where there is one; infinite = no bound.
RatioBounds ratio_bounds(const ParameterValues& parameters);

// One call of a surrogate: what is constant over its tokens.
class SurrogateJob {
 public:
  // Throws InvariantError when sizes do not fit.
  SurrogateJob(const SurrogateInput& in, const ParameterValues& parameters, const SurrogateOutput& out);

  SurrogateInput in;
  SurrogateOutput out;
  RatioBounds bounds;
  float lowest_log_ratio = -kMaxLogRatio, highest_log_ratio = kMaxLogRatio;  // clamp; without gradient beyond
  bool weigh_rollout = true;  // false: the rule has seen to the rollout weights
  Isa isa;
  TokenSequences sequences;
  bool one_weight;  // every sequence has the same
  int64_t size() const { return static_cast<int64_t>(in.log_probs.size()); }
};

// Running sums in lanes, the same for every instruction set: lane i gets every element whose index in the tile is i
// modulo kLanes.
struct SurrogateLanes {
  static constexpr int64_t kLanes = 32;
  enum Sum : uint8_t { loss, log_ratio, log_ratio_squared, k3, ratio, ratio_squared, clamped, clamped_squared, kSums };
  alignas(64) double sums[kSums][kLanes] = {};
  int64_t live = 0, clipped = 0, lower = 0, outside = 0, dead = 0, saturated = 0;
  alignas(64) float ratio_max[kLanes];
  alignas(64) float ratio_min[kLanes];
  int64_t sequence = 0;  // of the token to come

  SurrogateLanes();
  SurrogateSums total() const;
};

// Tokens [first, first + count) into a tile, count <= kSurrogateTile. lanes.sequence walks with them.
void load_tile(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, SurrogateLanes& lanes);
// Adds the tile to the sums and writes loss and gradient.
void finish_tile(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, SurrogateLanes& lanes);

// Runs a rule over the tokens [begin, end). A rule is called with a tile and an index and writes what a rule writes.
template <class Rule>
void run_rule(const SurrogateJob& job, const Rule& rule, int64_t begin, int64_t end, SurrogateLanes& lanes) {
  SurrogateTile tile(job);
  for (int64_t first = begin; first < end; first += kSurrogateTile) {
    const int64_t count = std::min(kSurrogateTile, end - first);
    load_tile(job, first, count, tile, lanes);
    with_isa(job.isa, [&rule, &tile]() TROUPE_INLINE_LAMBDA {
      for (int64_t i = 0; i < kSurrogateTile; ++i) rule(tile, i);
    });
    finish_tile(job, first, count, tile, lanes);
  }
}

// Runs a rule over all tokens.
template <class Rule>
SurrogateSums run_rule(const SurrogateJob& job, const Rule& rule) {
  SurrogateLanes lanes;
  run_rule(job, rule, 0, job.size(), lanes);
  return lanes.total();
}

}  // namespace troupe
