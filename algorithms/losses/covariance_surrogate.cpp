// The surrogates that treat the tokens with the largest covariance between advantage and log-probability
// differently (Cui et al. 2025, "The Entropy Mechanism of Reinforcement Learning", arXiv:2505.22617). Means are
// over all tokens of one call.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "algorithms/common/subset_draw.h"
#include "algorithms/losses/surrogate_kernel.h"
#include "algorithms/losses/surrogate_table.h"

namespace troupe {

namespace {

// Covariances of a tile's tokens, and which of the tokens are unmasked.
struct CovarianceTile {
  alignas(64) float value[kSurrogateTile];
  alignas(64) uint32_t live[kSurrogateTile];
};

class Covariance {
 public:
  explicit Covariance(const SurrogateJob& job) : job_(job) {
    alignas(64) double advantages[kSurrogateTile] = {}, log_probs[kSurrogateTile] = {};
    alignas(64) float advantage[kSurrogateTile], log_prob[kSurrogateTile];
    CovarianceTile tile;
    for_each_part([&](int64_t first, int64_t count) {
      with_isa(job_.isa, [&]() TROUPE_INLINE_LAMBDA {
        fetch(first, count, advantage, log_prob, tile.live);
        uint32_t live = 0;
        for (int64_t i = 0; i < kSurrogateTile; ++i) {
          advantages[i] += double{advantage[i]};
          log_probs[i] += double{log_prob[i]};
          live += tile.live[i] & 1u;
        }
        count_ += live;
      });
    });
    if (count_ == 0) return;
    mean_advantage_ = std::accumulate(advantages, advantages + kSurrogateTile, 0.0) / static_cast<double>(count_);
    mean_log_prob_ = std::accumulate(log_probs, log_probs + kSurrogateTile, 0.0) / static_cast<double>(count_);
  }

  int64_t count() const { return count_; }
  Isa isa() const { return job_.isa; }
  // A fraction of the tokens, rounded down, but at least one.
  int64_t share(double fraction) const {
    return std::max<int64_t>(1, static_cast<int64_t>(fraction * static_cast<double>(count_)));
  }
  // Computes (A - mean A) (log_prob - mean log_prob) of `count` tokens from `first` on.
  void of(int64_t first, int64_t count, CovarianceTile& tile) const {
    alignas(64) float advantage[kSurrogateTile], log_prob[kSurrogateTile];
    with_isa(job_.isa, [&]() TROUPE_INLINE_LAMBDA {
      fetch(first, count, advantage, log_prob, tile.live);
      for (int64_t i = 0; i < kSurrogateTile; ++i)
        tile.value[i] =
            static_cast<float>((double{advantage[i]} - mean_advantage_) * (double{log_prob[i]} - mean_log_prob_));
    });
  }
  template <class Each>
  void for_each_part(Each each) const {
    for (int64_t first = 0; first < job_.size(); first += kSurrogateTile)
      each(first, std::min(kSurrogateTile, job_.size() - first));
  }

 private:
  [[gnu::always_inline]] void fetch(int64_t first, int64_t count, float* advantage, float* log_prob,
                                    uint32_t* live) const {
    const float* advantages = job_.in.advantages.data() + first;
    const float* log_probs = job_.in.log_probs.data() + first;
    for (int64_t i = 0; i < kSurrogateTile; ++i) live[i] = mask_of(i < count);
    if (!job_.in.mask.empty()) {
      const uint8_t* mask = job_.in.mask.data() + first;
      for (int64_t i = 0; i < count; ++i) live[i] = mask_of(mask[i] != 0);
    }
    for (int64_t i = 0; i < count; ++i) advantage[i] = select(live[i], advantages[i]);
    for (int64_t i = 0; i < count; ++i) log_prob[i] = select(live[i], log_probs[i]);
    for (int64_t i = count; i < kSurrogateTile; ++i) advantage[i] = log_prob[i] = 0;
  }

  const SurrogateJob& job_;
  double mean_advantage_ = 0, mean_log_prob_ = 0;
  int64_t count_ = 0;
};

void widen(SurrogateJob& job) { job.lowest_log_ratio = -kExpLimit, job.highest_log_ratio = kExpLimit; }

// Maps floats to integers with the same order; NaN is below all.
[[gnu::always_inline]] inline uint32_t order_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t negative = 0u - (bits >> 31);
  return mask_of(x == x) & (bits ^ (negative | 0x80000000u));
}

// Selects the tokens with the `wanted` largest covariances: those above a threshold, and the first few equal to it. The
// threshold is found digit by digit from histograms, without copying or sorting.
class Largest {
 public:
  Largest(const Covariance& covariance, int64_t wanted) : at_threshold_(std::min(wanted, covariance.count())) {
    uint32_t fixed = 0;  // mask of the digits found so far
    for (const int shift : {21, 10, 0}) {
      const uint32_t digit = shift == 0 ? (1u << 10) - 1 : (1u << kBits) - 1;
      count(covariance, fixed, shift, digit);
      const uint32_t bucket = bucket_of_last(digit);
      for (uint32_t above = digit; above > bucket; --above) at_threshold_ -= histogram_[above];
      threshold_ |= bucket << shift;
      fixed |= digit << shift;
    }
  }
  // Writes the masks of the selected tokens of a tile. Call it for all tiles in order.
  void take(const CovarianceTile& tile, uint32_t* taken) {
    uint32_t equal = 0;
    for (int64_t i = 0; i < kSurrogateTile; ++i) {
      const uint32_t order = order_of(tile.value[i]);
      taken[i] = tile.live[i] & mask_of(order > threshold_);
      equal |= tile.live[i] & mask_of(order == threshold_);
    }
    if (equal == 0 || at_threshold_ == 0) return;
    for (int64_t i = 0; i < kSurrogateTile && at_threshold_ > 0; ++i)
      if (tile.live[i] != 0 && order_of(tile.value[i]) == threshold_) taken[i] = ~0u, --at_threshold_;
  }

 private:
  static constexpr int kBits = 11;

  // Fills the histogram of a digit over the tokens whose higher digits match the threshold. Skips, a tile at a time,
  // tokens that cannot be selected because enough larger ones have been counted: most of them.
  void count(const Covariance& covariance, uint32_t fixed, int shift, uint32_t digit) {
    histogram_.fill(0);
    CovarianceTile tile;
    alignas(64) uint32_t order[kSurrogateTile], counts[kSurrogateTile];
    uint32_t least = 0;
    int64_t counted = 0;
    covariance.for_each_part([&](int64_t first, int64_t size) {
      covariance.of(first, size, tile);
      uint32_t any = 0;
      with_isa(covariance.isa(), [&]() TROUPE_INLINE_LAMBDA {
        // Local copies that the loop cannot alias; otherwise it is not vectorized.
        const uint32_t known = fixed, prefix = threshold_, lowest = least;
        uint32_t found = 0;
        for (int64_t i = 0; i < kSurrogateTile; ++i) {
          const uint32_t at = order_of(tile.value[i]);
          const uint32_t counted_here = tile.live[i] & mask_of((at & known) == prefix) & mask_of(at >= lowest);
          order[i] = at;
          counts[i] = counted_here;
          found |= counted_here;
        }
        any = found;
      });
      if (any == 0) return;
      for (int64_t i = 0; i < kSurrogateTile; ++i) {
        histogram_[order[i] >> shift & digit] += counts[i] & 1u;
        counted += counts[i] & 1u;
      }
      if (counted < at_threshold_ + int64_t{1 << kBits}) return;
      counted = 0;  // the next histogram search must pay off too
      least = threshold_ | bucket_of_last(digit) << shift;
    });
  }
  // The bucket of the last wanted token, counted from the top; 0 if there are not that many.
  uint32_t bucket_of_last(uint32_t digit) const {
    uint32_t bucket = digit;
    for (int64_t left = at_threshold_; bucket > 0 && histogram_[bucket] < left; --bucket) left -= histogram_[bucket];
    return bucket;
  }

  std::array<int64_t, 1 << kBits> histogram_;
  uint32_t threshold_ = 0;
  int64_t at_threshold_;
};

// The clip loss; 0 at selected tokens.
struct ClipCovRule {
  RatioBounds bounds;
  const uint32_t* taken;
  [[gnu::always_inline]] void operator()(SurrogateTile& tile, int64_t i) const {
    const float advantage = tile.advantage[i], ratio = tile.ratio[i];
    const uint32_t high = mask_of(advantage > 0) & mask_of(ratio > bounds.high);
    const uint32_t low = mask_of(advantage < 0) & mask_of(ratio < bounds.low);
    const float used = select(low, bounds.low, select(high, bounds.high, ratio));
    tile.loss[i] = select(~taken[i], -advantage * used);
    tile.grad[i] = select(~(taken[i] | high | low | tile.beyond[i]), -advantage * used);
    tile.clipped[i] = taken[i];
  }
};

// -A r, plus the penalty at selected tokens.
struct KlCovRule {
  float weight;
  const uint32_t* taken;
  [[gnu::always_inline]] void operator()(SurrogateTile& tile, int64_t i) const {
    const float plain = -tile.advantage[i] * tile.ratio[i], d = tile.log_ratio[i];
    const float sign = select(mask_of(d > 0), 1.0f, select(mask_of(d < 0), -1.0f));
    tile.loss[i] = plain + select(taken[i], weight * std::abs(d));
    tile.grad[i] = select(~tile.beyond[i], plain + select(taken[i], weight * sign));
    tile.clipped[i] = taken[i];
  }
};

// Runs a rule over all tokens. Before each tile, `mark(covariances, tile)` sets what the rule needs
// to know about its tokens.
template <class Rule, class Mark>
SurrogateSums run_marked(const SurrogateJob& job, const Covariance& covariance, const Rule& rule, Mark mark) {
  SurrogateTile tile(job);
  SurrogateLanes lanes;
  CovarianceTile covariances;
  covariance.for_each_part([&](int64_t first, int64_t count) {
    load_tile(job, first, count, tile, lanes);
    covariance.of(first, count, covariances);
    mark(covariances, tile);
    with_isa(job.isa, [&]() TROUPE_INLINE_LAMBDA {
      for (int64_t i = 0; i < kSurrogateTile; ++i) rule(tile, i);
    });
    finish_tile(job, first, count, tile, lanes);
  });
  return lanes.total();
}

// The tokens that may be drawn: covariance in the range and clipping not active. Counts them.
struct Candidates {
  RatioBounds bounds;
  float low, high;
  int64_t of(Isa isa, const CovarianceTile& covariances, const SurrogateTile& tile, uint32_t* candidate) const {
    uint32_t count = 0;
    with_isa(isa, [&]() TROUPE_INLINE_LAMBDA {
      for (int64_t i = 0; i < kSurrogateTile; ++i) {
        const uint32_t clipped = (mask_of(tile.advantage[i] > 0) & mask_of(tile.ratio[i] > bounds.high)) |
                                 (mask_of(tile.advantage[i] < 0) & mask_of(tile.ratio[i] < bounds.low));
        candidate[i] =
            tile.live[i] & mask_of(covariances.value[i] > low) & mask_of(covariances.value[i] < high) & ~clipped;
        count += candidate[i] & 1u;
      }
    });
    return count;
  }
};

}  // namespace

// The clip loss, but with loss and gradient 0 at randomly drawn tokens. They are drawn from those with a covariance in
// a given range and without active clipping.
SurrogateSums clip_cov_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  widen(job);
  const Covariance covariance(job);
  const Candidates candidates{job.bounds, static_cast<float>(p.number("cov_low")),
                              static_cast<float>(p.number("cov_high"))};
  alignas(64) uint32_t taken[kSurrogateTile];
  int64_t count = 0;
  SurrogateTile tile(job);
  SurrogateLanes lanes;
  CovarianceTile covariances;
  covariance.for_each_part([&](int64_t first, int64_t size) {
    load_tile(job, first, size, tile, lanes);
    covariance.of(first, size, covariances);
    count += candidates.of(job.isa, covariances, tile, taken);
  });
  SubsetDraw draw(in.key, covariance.share(p.number("fraction")), count);
  return run_marked(job, covariance, ClipCovRule{job.bounds, taken},
                    [&](const CovarianceTile& covariances, const SurrogateTile& tokens) {
                      if (candidates.of(job.isa, covariances, tokens, taken) == 0) return;
                      for (uint32_t& mask : taken)
                        if (mask != 0) mask = mask_of(draw.next());
                    });
}

// -A r, plus kl_coef |log r| at the tokens with the largest covariance. No clipping.
SurrogateSums kl_cov_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  widen(job);
  const Covariance covariance(job);
  Largest largest(covariance, covariance.share(p.number("fraction")));
  alignas(64) uint32_t taken[kSurrogateTile];
  return run_marked(job, covariance, KlCovRule{static_cast<float>(p.number("kl_coef")), taken},
                    [&](const CovarianceTile& covariances, const SurrogateTile&) { largest.take(covariances, taken); });
}

}  // namespace troupe
