#pragma once
// The single pass over tokens that all surrogates share, in tiles: `load` computes ratios, a rule computes loss and
// gradient, `finish` sums the diagnostics and writes the output. load, finish and each rule's loop are compiled once
// per instruction set. Internal to algorithms/.

#include <cstdint>

#include "algorithms/common/tile.h"
#include "algorithms/common/with_isa.h"
#include "algorithms/losses/surrogate.h"

namespace troupe {

inline constexpr int64_t kSurrogateTile = 128;

// Every loop covers the whole tile. Where there is no token or a masked one, `live` is 0 and the tile holds ratio 1 and
// advantage 0. Masks are all ones or all zeros.
struct SurrogateTile {
  explicit SurrogateTile(const class SurrogateJob& job);

  alignas(64) float log_prob[kSurrogateTile];
  alignas(64) float advantage[kSurrogateTile];
  alignas(64) float log_ratio[kSurrogateTile];  // clamped
  alignas(64) float ratio[kSurrogateTile];
  alignas(64) float k3[kSurrogateTile];  // ratio - 1 - log_ratio, without cancellation
  alignas(64) uint32_t live[kSurrogateTile];
  alignas(64) uint32_t beyond[kSurrogateTile];  // the clamp was active
  alignas(64) double weight[kSurrogateTile];    // of the token's sequence
  // A rule writes these for every live token, without weights. Masks that it does not set stay 0.
  alignas(64) float loss[kSurrogateTile] = {};
  alignas(64) float grad[kSurrogateTile] = {};
  alignas(64) uint32_t clipped[kSurrogateTile] = {};
  alignas(64) uint32_t lower[kSurrogateTile] = {};
  alignas(64) uint32_t saturated[kSurrogateTile] = {};
};

// The bounds beyond which the ratio is clipped. Clipping is active on strict inequality only.
struct RatioBounds {
  float low, high, dual;
};
// From clip_low and clip_high, which default to `clip`, and from dual_clip if the surrogate has
// one; infinite = no bound.
RatioBounds ratio_bounds(const ParameterValues& parameters);

// Everything that is constant during one call of a surrogate.
class SurrogateJob {
 public:
  // Throws InvariantError when sizes do not fit.
  SurrogateJob(const SurrogateInput& in, const ParameterValues& parameters, const SurrogateOutput& out);

  SurrogateInput in;
  SurrogateOutput out;
  RatioBounds bounds;
  float lowest_log_ratio = -kMaxLogRatio, highest_log_ratio = kMaxLogRatio;  // clamp; no gradient beyond it
  bool weigh_rollout = true;  // false: the rule applies the rollout weights itself
  Isa isa;
  TokenSequences sequences;
  bool one_weight;  // all sequences have the same weight
  int64_t size() const { return static_cast<int64_t>(in.log_probs.size()); }
};

// Running sums in a fixed number of accumulators, the same for every instruction set: accumulator i gets every element
// whose index in the tile is i modulo kLanes.
struct SurrogateLanes {
  static constexpr int64_t kLanes = 32;
  enum Sum : uint8_t { loss, log_ratio, log_ratio_squared, k3, ratio, ratio_squared, clamped, clamped_squared, kSums };
  alignas(64) double sums[kSums][kLanes] = {};
  int64_t live = 0, clipped = 0, lower = 0, outside = 0, dead = 0, saturated = 0;
  alignas(64) float ratio_max[kLanes];
  alignas(64) float ratio_min[kLanes];
  int64_t sequence = 0;  // of the next token

  SurrogateLanes();
  SurrogateSums total() const;
};

// Loads the tokens [first, first + count) into a tile, count <= kSurrogateTile, and advances lanes.sequence with them.
void load_tile(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, SurrogateLanes& lanes);
// Adds the tile to the sums and writes loss and gradient to the output.
void finish_tile(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, SurrogateLanes& lanes);

// Runs a rule over the tokens [begin, end). The rule is called with a tile and an index and writes the tile's outputs.
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
