// The surrogates that treat the tokens of the largest covariance between advantage and log-probability apart (Cui et al. 2025, "The
// Entropy Mechanism of Reinforcement Learning"). Means are over the tokens that are handed over together.

#include <algorithm>
#include <array>
#include <cmath>

#include "algorithms/surrogate_kernel.h"
#include "algorithms/surrogate_table.h"
#include "runtime/rng.h"

namespace troupe {

namespace {

class Covariance {
 public:
  explicit Covariance(const SurrogateInput& in) : in_(in) {
    for (int64_t i = 0; i < size(); ++i)
      if (counts(i)) advantage_ += in.advantages[i], log_prob_ += in.log_probs[i], ++count_;
    if (count_ > 0) advantage_ /= static_cast<double>(count_), log_prob_ /= static_cast<double>(count_);
  }
  int64_t size() const { return static_cast<int64_t>(in_.log_probs.size()); }
  int64_t count() const { return count_; }
  bool counts(int64_t i) const { return in_.mask.empty() || in_.mask[i] != 0; }
  float at(int64_t i) const {
    return static_cast<float>((in_.advantages[i] - advantage_) * (in_.log_probs[i] - log_prob_));
  }
  // A share of the tokens, rounded down, but one at least.
  int64_t share(double fraction) const {
    return std::max<int64_t>(1, static_cast<int64_t>(fraction * static_cast<double>(count_)));
  }

 private:
  const SurrogateInput& in_;
  double advantage_ = 0, log_prob_ = 0;
  int64_t count_ = 0;
};

void widen(SurrogateJob& job) { job.lowest_log_ratio = -kExpLimit, job.highest_log_ratio = kExpLimit; }

// Calls each(token, tile, index in the tile) for the unmasked tokens in order, with their ratios made.
template <class Each, class After>
void for_each_token(const SurrogateJob& job, SurrogateLanes& lanes, Each each, After after) {
  SurrogateTile tile(job);
  for (int64_t first = 0; first < job.size(); first += kSurrogateTile) {
    const int64_t count = std::min(kSurrogateTile, job.size() - first);
    load_tile(job, first, count, tile, lanes);
    for (int64_t i = 0; i < count; ++i)
      if (tile.live[i] != 0) each(first + i, tile, i);
    after(first, count, tile);
  }
}

bool clip_is_active(const RatioBounds& bounds, float advantage, float ratio) {
  return (advantage > 0 && ratio > bounds.high) || (advantage < 0 && ratio < bounds.low);
}

// Picks `wanted` of `candidates` things that come one by one, every subset with the same probability (Knuth, algorithm S).
class Draw {
 public:
  Draw(uint64_t key, int64_t wanted, int64_t candidates)
      : random_(derive_key(key, "clip_cov")), wanted_(std::min(wanted, candidates)), candidates_(candidates) {}
  bool next() {
    const bool taken = random_.below(static_cast<uint64_t>(candidates_--)) < static_cast<uint64_t>(wanted_);
    wanted_ -= taken;
    return taken;
  }

 private:
  Rng random_;
  int64_t wanted_, candidates_;
};

// The order of floats as that of integers; NaN below all.
uint32_t order_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The tokens of the `wanted` largest covariances: those above a threshold, and the first few at it. Found digit by digit from
// histograms, so that nothing is copied or sorted.
struct Largest {
  uint32_t threshold = 0;
  int64_t at_threshold = 0;

  Largest(const Covariance& covariance, int64_t wanted) {
    constexpr int kBits = 11;
    std::array<int64_t, 1 << kBits> histogram;
    uint32_t fixed = 0;  // mask of the digits that are known
    at_threshold = std::min(wanted, covariance.count());
    for (const int shift : {21, 10, 0}) {
      histogram.fill(0);
      const uint32_t digit = shift == 0 ? (1u << 10) - 1 : (1u << kBits) - 1;
      for (int64_t i = 0; i < covariance.size(); ++i) {
        if (!covariance.counts(i)) continue;
        const uint32_t order = order_of(covariance.at(i));
        if ((order & fixed) == threshold) ++histogram[order >> shift & digit];
      }
      uint32_t bucket = digit;
      while (bucket > 0 && histogram[bucket] < at_threshold) at_threshold -= histogram[bucket--];
      threshold |= bucket << shift;
      fixed |= digit << shift;
    }
  }
  // Asked for every token in order.
  bool takes(float covariance) {
    const uint32_t order = order_of(covariance);
    return order > threshold || (order == threshold && at_threshold-- > 0);
  }
};

}  // namespace

// The clip loss, without loss and gradient at some tokens drawn from those whose covariance is in a range and where clipping is not
// active.
SurrogateSums clip_cov_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  widen(job);
  const Covariance covariance(in);
  const auto low = static_cast<float>(p.number("cov_low")), high = static_cast<float>(p.number("cov_high"));
  const auto is_candidate = [&](int64_t token, const SurrogateTile& tile, int64_t i) {
    const float value = covariance.at(token);
    return value > low && value < high && !clip_is_active(job.bounds, tile.advantage[i], tile.ratio[i]);
  };
  SurrogateLanes unused, lanes;
  int64_t candidates = 0;
  for_each_token(
      job, unused,
      [&](int64_t token, const SurrogateTile& tile, int64_t i) { candidates += is_candidate(token, tile, i); },
      [](int64_t, int64_t, SurrogateTile&) {});
  Draw draw(in.key, covariance.share(p.number("fraction")), candidates);
  for_each_token(
      job, lanes,
      [&](int64_t token, SurrogateTile& tile, int64_t i) {
        const float advantage = tile.advantage[i], ratio = tile.ratio[i];
        const bool active = clip_is_active(job.bounds, advantage, ratio);
        const uint32_t taken = mask_of(is_candidate(token, tile, i) && draw.next());
        const float used = active ? (advantage > 0 ? job.bounds.high : job.bounds.low) : ratio;
        tile.loss[i] = select(~taken, -advantage * used);
        tile.grad[i] = active ? 0.0f : select(~(taken | tile.beyond[i]), -advantage * ratio);
        tile.clipped[i] = taken;
      },
      [&](int64_t first, int64_t count, SurrogateTile& tile) { finish_tile(job, first, count, tile, lanes); });
  return lanes.total();
}

// -A r, plus kl_coef |log r| at the tokens of the largest covariance. Nothing is clipped.
SurrogateSums kl_cov_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  widen(job);
  const Covariance covariance(in);
  Largest largest(covariance, covariance.share(p.number("fraction")));
  const auto weight = static_cast<float>(p.number("kl_coef"));
  SurrogateLanes lanes;
  for_each_token(
      job, lanes,
      [&](int64_t token, SurrogateTile& tile, int64_t i) {
        const float plain = -tile.advantage[i] * tile.ratio[i], d = tile.log_ratio[i];
        const bool taken = largest.takes(covariance.at(token));
        const float sign = d > 0 ? 1.0f : d < 0 ? -1.0f : 0.0f;
        tile.loss[i] = taken ? plain + weight * std::abs(d) : plain;
        tile.grad[i] = select(~tile.beyond[i], taken ? plain + weight * sign : plain);
        tile.clipped[i] = mask_of(taken);
      },
      [&](int64_t first, int64_t count, SurrogateTile& tile) { finish_tile(job, first, count, tile, lanes); });
  return lanes.total();
}

}  // namespace troupe
