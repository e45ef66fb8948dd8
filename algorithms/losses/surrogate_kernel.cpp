#include "algorithms/losses/surrogate_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using Lanes = SurrogateLanes;

// exp(x) and exp(x) - 1 - x for |x| <= kExpLimit. Near 0 the latter uses the polynomial, because float32 would lose all
// digits of the difference.
[[gnu::always_inline]] inline void exp_and_k3(float x, float& ratio, float& k3) {
  const ExpParts e = exp_parts(x);
  ratio = exp_steps::result<exp_steps::Scalar>(e.p, e.f, e.shifted);
  k3 = select(mask_of(e.shifted == exp_steps::kRound), e.p * e.f * e.f, ratio - 1.0f - x);
}

// Copies the tokens into the tile, and zeros where there are none.
[[gnu::always_inline]] inline void fetch(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile) {
  const float* log_probs = job.in.log_probs.data() + first;
  const float* old_log_probs = job.in.old_log_probs.data() + first;
  const float* advantages = job.in.advantages.data() + first;
  for (int64_t i = 0; i < count; ++i) tile.log_prob[i] = log_probs[i];
  for (int64_t i = 0; i < count; ++i) tile.log_ratio[i] = log_probs[i] - old_log_probs[i];
  for (int64_t i = 0; i < count; ++i) tile.advantage[i] = advantages[i];
  if (job.in.mask.empty()) {
    for (int64_t i = 0; i < count; ++i) tile.live[i] = ~0u;
  } else {
    const uint8_t* mask = job.in.mask.data() + first;
    for (int64_t i = 0; i < count; ++i) tile.live[i] = mask_of(mask[i] != 0);
  }
  for (int64_t i = count; i < kSurrogateTile; ++i)
    tile.log_prob[i] = tile.log_ratio[i] = tile.advantage[i] = 0, tile.live[i] = 0;
}

[[gnu::always_inline]] inline void load(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile) {
  if (count == kSurrogateTile) {
    fetch(job, first, kSurrogateTile, tile);
  } else {
    fetch(job, first, count, tile);
  }
  const float low = job.lowest_log_ratio, high = job.highest_log_ratio;
  for (int64_t i = 0; i < kSurrogateTile; ++i) {
    tile.log_prob[i] = select(tile.live[i], tile.log_prob[i]);
    tile.advantage[i] = select(tile.live[i], tile.advantage[i]);
    const float log_ratio = select(tile.live[i], tile.log_ratio[i]);
    tile.beyond[i] = mask_of(log_ratio > high) | mask_of(log_ratio < low);
    tile.log_ratio[i] = clamp_keep_nan(log_ratio, low, high);
  }
  for (int64_t i = 0; i < kSurrogateTile; ++i) exp_and_k3(tile.log_ratio[i], tile.ratio[i], tile.k3[i]);
}

// Adds a tile's numbers, or term(number), to the accumulators. To vectorize completely, it adds one element of each
// quarter of the tile at a time.
static_assert(kSurrogateTile == 4 * Lanes::kLanes);
template <class Term>
[[gnu::always_inline]] inline void add_terms(double* sums, Term term) {
  constexpr int64_t k = Lanes::kLanes;
  for (int64_t i = 0; i < k; ++i) sums[i] += (term(i) + term(i + k)) + (term(i + 2 * k) + term(i + 3 * k));
}
[[gnu::always_inline]] inline void add(double* sums, const float* x) {
  add_terms(sums, [x](int64_t i) TROUPE_INLINE_LAMBDA { return double{x[i]}; });
}
[[gnu::always_inline]] inline void add_squares(double* sums, const float* x) {
  add_terms(sums, [x](int64_t i) TROUPE_INLINE_LAMBDA { return double{x[i]} * double{x[i]}; });
}

// Whether the clip rule gives a token no gradient.
[[gnu::always_inline]] inline uint32_t without_gradient(const SurrogateTile& tile, int64_t i, RatioBounds bounds) {
  const float ratio = tile.ratio[i];
  const uint32_t gain = mask_of(tile.advantage[i] > 0), loss = mask_of(tile.advantage[i] < 0);
  const uint32_t low = mask_of(ratio < bounds.low) | mask_of(ratio > bounds.dual);
  return (gain & mask_of(ratio > bounds.high)) | (loss & low) | tile.beyond[i];
}

[[gnu::always_inline]] inline void diagnose(const SurrogateJob& job, SurrogateTile& tile, Lanes& lanes) {
  const RatioBounds bounds = job.bounds;
  alignas(64) float clamped[kSurrogateTile];
  uint32_t live = 0, clipped = 0, lower = 0, outside = 0, dead = 0, saturated = 0;
  for (int64_t i = 0; i < kSurrogateTile; ++i) {
    const float ratio = tile.ratio[i];
    const uint32_t high = mask_of(ratio > bounds.high), low = mask_of(ratio < bounds.low);
    const uint32_t one = tile.live[i] & 1u;
    live += one;
    clipped += one & tile.clipped[i];
    lower += one & tile.lower[i];
    outside += one & (high | low);
    dead += one & without_gradient(tile, i, bounds);
    saturated += one & tile.saturated[i];
  }
  lanes.live += live, lanes.clipped += clipped, lanes.lower += lower;
  lanes.outside += outside, lanes.dead += dead, lanes.saturated += saturated;
  for (int64_t begin = 0; begin < kSurrogateTile; begin += Lanes::kLanes)
    for (int64_t i = 0; i < Lanes::kLanes; ++i) {
      const float above = select(tile.live[begin + i], tile.ratio[begin + i], -kInfinity);
      const float below = select(tile.live[begin + i], tile.ratio[begin + i], kInfinity);
      lanes.ratio_max[i] = lanes.ratio_max[i] < above ? above : lanes.ratio_max[i];
      lanes.ratio_min[i] = below < lanes.ratio_min[i] ? below : lanes.ratio_min[i];
    }
  for (int64_t i = 0; i < kSurrogateTile; ++i) {
    clamped[i] = select(tile.live[i], clamp_keep_nan(tile.ratio[i], bounds.low, bounds.high));
    tile.ratio[i] = select(tile.live[i], tile.ratio[i]);
  }
  add(lanes.sums[Lanes::log_ratio], tile.log_ratio);
  add_squares(lanes.sums[Lanes::log_ratio_squared], tile.log_ratio);
  add(lanes.sums[Lanes::k3], tile.k3);
  add(lanes.sums[Lanes::ratio], tile.ratio);
  add_squares(lanes.sums[Lanes::ratio_squared], tile.ratio);
  add(lanes.sums[Lanes::clamped], clamped);
  add_squares(lanes.sums[Lanes::clamped_squared], clamped);
}

[[gnu::always_inline]] inline void write(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile,
                                         Lanes& lanes) {
  if (!job.in.rollout_weights.empty() && job.weigh_rollout) {
    const float* weights = job.in.rollout_weights.data() + first;
    for (int64_t i = 0; i < count; ++i) tile.loss[i] *= weights[i];
    for (int64_t i = 0; i < count; ++i) tile.grad[i] *= weights[i];
  }
  for (int64_t i = 0; i < kSurrogateTile; ++i) tile.loss[i] = select(tile.live[i], tile.loss[i]);
  add_terms(lanes.sums[Lanes::loss], [&tile](int64_t i) TROUPE_INLINE_LAMBDA { return tile.loss[i] * tile.weight[i]; });
  if (!job.out.loss.empty()) {
    float* __restrict loss = job.out.loss.data() + first;
    for (int64_t i = 0; i < count; ++i) loss[i] = tile.loss[i] * static_cast<float>(tile.weight[i]);
  }
  if (!job.out.grad.empty()) {
    float* __restrict grad = job.out.grad.data() + first;
    for (int64_t i = 0; i < count; ++i)
      grad[i] = select(tile.live[i], tile.grad[i] * static_cast<float>(tile.weight[i]));
  }
}

[[gnu::always_inline]] inline void finish(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile,
                                          Lanes& lanes) {
  diagnose(job, tile, lanes);
  if (count == kSurrogateTile) {
    write(job, first, kSurrogateTile, tile, lanes);
  } else {
    write(job, first, count, tile, lanes);
  }
}

// Adds the tokens of a finished tile to the sums of their classes, one by one, because neighbours may differ.
void add_to_classes(const SurrogateJob& job, int64_t first, int64_t count, const SurrogateTile& tile) {
  const uint8_t* classes = job.in.classes.data() + first;
  for (int64_t i = 0; i < count; ++i) {
    if (tile.live[i] == 0) continue;
    ClassSums& sums = job.out.by_class[classes[i]];
    const double ratio = tile.ratio[i];
    sums.count += 1;
    sums.k3 += tile.k3[i];
    sums.clipped += tile.clipped[i] & 1u;
    sums.dead += without_gradient(tile, i, job.bounds) & 1u;
    sums.ratio += ratio;
    sums.ratio_squared += ratio * ratio;
  }
}

bool all_equal(std::span<const double> x) {
  return std::ranges::all_of(x, [&](double value) { return value == x[0]; });
}

double sum_of(const double* lanes) {
  double sum = 0;
  for (int64_t lane = 0; lane < Lanes::kLanes; ++lane) sum += lanes[lane];
  return sum;
}

void fill_weights(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, int64_t& sequence) {
  if (job.one_weight) return;  // set once
  int64_t at = first;
  const int64_t end = first + count;
  while (job.sequences.begin(sequence) > at) --sequence;
  while (at < end) {
    while (job.sequences.end(sequence) <= at) ++sequence;
    const int64_t stop = std::min(end, job.sequences.end(sequence));
    std::fill(tile.weight + (at - first), tile.weight + (stop - first), job.in.sequence_weights[sequence]);
    at = stop;
  }
  std::fill(tile.weight + count, tile.weight + kSurrogateTile, 0.0);
}

}  // namespace

RatioBounds ratio_bounds(const ParameterValues& parameters) {
  const double clip = parameters.number("clip");
  const double dual = parameters.has("dual_clip") ? parameters.number("dual_clip") : 0;
  if (dual != 0 && !(dual > 1))
    throw ConfigError("dual_clip: " + std::to_string(dual) + ", expected 0 (off) or a number above 1");
  return {static_cast<float>(1 - parameters.number_or("clip_low", clip)),
          static_cast<float>(1 + parameters.number_or("clip_high", clip)),
          dual == 0 ? kInfinity : static_cast<float>(dual)};
}

SurrogateJob::SurrogateJob(const SurrogateInput& input, const ParameterValues& parameters,
                           const SurrogateOutput& output)
    : in(input),
      out(output),
      bounds(ratio_bounds(parameters)),
      isa(current_isa()),
      sequences(input.sequences.value_or(TokenSequences(size()))) {
  const std::size_t n = in.log_probs.size();
  TROUPE_CHECK(in.old_log_probs.size() == n && in.advantages.size() == n && fits_or_empty(in.mask, n), "log_probs", n,
               "old_log_probs", in.old_log_probs.size(), "advantages", in.advantages.size(), "mask", in.mask.size());
  TROUPE_CHECK(in.rollout_weights.empty() || in.rollout_weights.size() == n, "log_probs", n, "rollout_weights",
               in.rollout_weights.size());
  TROUPE_CHECK((out.loss.empty() || out.loss.size() == n) && (out.grad.empty() || out.grad.size() == n), "log_probs", n,
               "loss", out.loss.size(), "grad", out.grad.size());
  TROUPE_CHECK(
      out.by_class.empty() || (in.classes.size() == n &&
                               std::ranges::all_of(in.classes, [&](uint8_t of) { return of < out.by_class.size(); })),
      "log_probs", n, "classes", in.classes.size(), out.by_class.size());
  TROUPE_CHECK(sequences.tokens() == size(), "log_probs", n, "tokens of the sequences", sequences.tokens());
  TROUPE_CHECK(in.sequence_weights.empty() || static_cast<int64_t>(in.sequence_weights.size()) == sequences.count(),
               "sequences", sequences.count(), "sequence_weights", in.sequence_weights.size());
  one_weight = all_equal(in.sequence_weights);
}

SurrogateTile::SurrogateTile(const SurrogateJob& job) {
  std::ranges::fill(weight, job.in.sequence_weights.empty() ? 1.0 : job.in.sequence_weights[0]);
}

SurrogateLanes::SurrogateLanes() {
  std::ranges::fill(ratio_max, -kInfinity);
  std::ranges::fill(ratio_min, kInfinity);
}

SurrogateSums SurrogateLanes::total() const {
  SurrogateSums out;
  out.loss = sum_of(sums[loss]);
  out.count = static_cast<double>(live);
  out.log_ratio = sum_of(sums[log_ratio]);
  out.log_ratio_squared = sum_of(sums[log_ratio_squared]);
  out.k3 = sum_of(sums[k3]);
  out.ratio = sum_of(sums[ratio]);
  out.ratio_squared = sum_of(sums[ratio_squared]);
  out.clamped = sum_of(sums[clamped]);
  out.clamped_squared = sum_of(sums[clamped_squared]);
  out.clipped = static_cast<double>(clipped);
  out.clipped_lower = static_cast<double>(lower);
  out.outside = static_cast<double>(outside);
  out.dead = static_cast<double>(dead);
  out.saturated = static_cast<double>(saturated);
  const bool lost = std::isnan(out.ratio);  // comparisons ignore NaN, but an unmasked NaN must not be hidden
  out.ratio_max = lost ? out.ratio : live == 0 ? 0.0 : *std::ranges::max_element(ratio_max);
  out.ratio_min = lost ? out.ratio : live == 0 ? 0.0 : *std::ranges::min_element(ratio_min);
  return out;
}

void load_tile(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, SurrogateLanes& lanes) {
  fill_weights(job, first, count, tile, lanes.sequence);
  with_isa(job.isa, [&]() TROUPE_INLINE_LAMBDA { load(job, first, count, tile); });
}

void finish_tile(const SurrogateJob& job, int64_t first, int64_t count, SurrogateTile& tile, SurrogateLanes& lanes) {
  with_isa(job.isa, [&]() TROUPE_INLINE_LAMBDA { finish(job, first, count, tile, lanes); });
  if (!job.out.by_class.empty()) add_to_classes(job, first, count, tile);
}

}  // namespace troupe
