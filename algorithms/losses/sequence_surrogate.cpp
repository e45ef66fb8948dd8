// The surrogates whose token losses depend on the whole sequence. Every token of a sequence has the sequence's loss.
// Its gradient is the derivative of the sequence's loss times the number of tokens, which makes the sum correct under
// any weights of sequences.

#include <algorithm>
#include <cmath>

#include "algorithms/losses/surrogate_kernel.h"
#include "algorithms/losses/surrogate_table.h"

namespace troupe {

namespace {

using Tile = SurrogateTile;

bool counts(const SurrogateInput& in, int64_t i) { return in.mask.empty() || in.mask[i] != 0; }

double log_ratio_at(const SurrogateInput& in, int64_t i) {
  return static_cast<double>(in.log_probs[i] - in.old_log_probs[i]);
}

struct GspoRule {
  RatioBounds bounds;
  float ratio;         // of the sequence
  uint32_t unbounded;  // 0 where the bound of the log-ratio is active: no gradient
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float advantage = tile.advantage[i];
    const uint32_t high = mask_of(advantage > 0) & mask_of(ratio > bounds.high);
    const uint32_t low = mask_of(advantage < 0) & mask_of(ratio < bounds.low);
    const float used = select(low, bounds.low, select(high, bounds.high, ratio));
    tile.loss[i] = -advantage * used;
    tile.grad[i] = select(unbounded & ~(high | low), -advantage * used);
    tile.clipped[i] = high | low;
  }
};

// The mean log-ratio of the unmasked tokens of a sequence; 0 if there are none.
double mean_log_ratio(const SurrogateInput& in, int64_t begin, int64_t end) {
  double sum = 0;
  int64_t n = 0;
  for (int64_t i = begin; i < end; ++i)
    if (counts(in, i)) sum += log_ratio_at(in, i), ++n;
  return sum / static_cast<double>(std::max<int64_t>(n, 1));
}

struct GeoMeanRule {
  float low, high;     // bounds of the log-ratio
  float loss;          // the same for every token of the sequence
  uint32_t unbounded;  // 0 where the bound of the exponent is active: no gradient
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float advantage = tile.advantage[i], d = tile.log_ratio[i];
    const uint32_t gain = mask_of(advantage > 0), pain = mask_of(advantage < 0);
    const uint32_t above = mask_of(d > high), below = mask_of(d < low);
    tile.loss[i] = loss;
    // mu has a gradient unless the clamped value is the smaller one; none where A is 0; NaN stays NaN.
    const uint32_t moves = (gain & ~above) | (pain & ~below);
    tile.grad[i] = select((moves & unbounded) | mask_of(advantage != advantage), loss);
    tile.clipped[i] = gain & (above | below);
    tile.lower[i] = pain & (above | below);
  }
};

// -A R of one sequence: the mean advantage times the geometric mean of the clipped ratios, times the geometric mean of
// the rollout weights. log R is bounded from above, as the log-ratios of single tokens are elsewhere.
struct GeoMeanLoss {
  float loss = 0;
  bool bounded = false;
};

GeoMeanLoss geo_mean_loss(const SurrogateInput& in, double low, double high, int64_t begin, int64_t end) {
  double mu = 0, advantage = 0, log_weight = 0, n = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (!counts(in, i)) continue;
    const double a = in.advantages[i], d = log_ratio_at(in, i);
    const double sign = a > 0 ? 1.0 : a < 0 ? -1.0 : a;
    mu += sign * std::min(sign * d, sign * std::clamp(d, low, high));
    advantage += a;
    if (!in.rollout_weights.empty()) log_weight += std::log(in.rollout_weights[i] + 1e-10);
    n += 1;
  }
  if (n == 0) return {};
  constexpr double kLargest = 20;
  const double exponent = (mu + log_weight) / n;
  const bool bounded = exponent > kLargest;
  return {static_cast<float>(-advantage / n * std::exp(bounded ? kLargest : exponent)), bounded};
}

}  // namespace

// max(-A s, -A clip(s)), where s is the geometric mean of the sequence's ratios (GSPO, Zheng et al. 2025,
// arXiv:2507.18071; if advantages differ within a sequence, its token version GSPO-token).
SurrogateSums gspo_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  constexpr double kLargest = 10;  // upper bound of log s (verl, github.com/volcengine/verl)
  const SurrogateJob job(in, p, out);
  SurrogateLanes lanes;
  for (int64_t sequence = 0; sequence < job.sequences.count(); ++sequence) {
    const int64_t begin = job.sequences.begin(sequence), end = job.sequences.end(sequence);
    const double log_ratio = mean_log_ratio(in, begin, end);
    const auto ratio = static_cast<float>(std::exp(log_ratio > kLargest ? kLargest : log_ratio));
    run_rule(job, GspoRule{job.bounds, ratio, mask_of(!(log_ratio > kLargest))}, begin, end, lanes);
  }
  return lanes.total();
}

// -mean(A) exp(mean(mu)), where mu is the log-ratio, clipped where that decreases the objective (GMPO, Zhao et al.
// 2025, arXiv:2507.20673).
SurrogateSums geo_mean_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  job.weigh_rollout = false;
  const double low = -p.number_or("clip_low", p.number("clip")), high = p.number_or("clip_high", p.number("clip"));
  SurrogateLanes lanes;
  for (int64_t sequence = 0; sequence < job.sequences.count(); ++sequence) {
    const int64_t begin = job.sequences.begin(sequence), end = job.sequences.end(sequence);
    const GeoMeanLoss own = geo_mean_loss(in, low, high, begin, end);
    const GeoMeanRule rule{static_cast<float>(low), static_cast<float>(high), own.loss, mask_of(!own.bounded)};
    run_rule(job, rule, begin, end, lanes);
  }
  return lanes.total();
}

}  // namespace troupe
