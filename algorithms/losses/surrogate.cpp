#include "algorithms/losses/surrogate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/common/names.h"
#include "algorithms/losses/surrogate_kernel.h"
#include "algorithms/losses/surrogate_table.h"

namespace troupe {

namespace {

using Tile = SurrogateTile;

// A gradient through the ratio is 0 where the log-ratio is clamped.
[[gnu::always_inline]] inline void write_tile(Tile& tile, int64_t i, float loss, float grad, uint32_t clipped = 0,
                                              uint32_t lower = 0) {
  tile.loss[i] = loss;
  tile.grad[i] = select(~tile.beyond[i], grad);
  tile.clipped[i] = clipped;
  tile.lower[i] = lower;
}

// sigmoid(x) = 1 / (1 + exp(-x)), and sigmoid(-x).
struct Sigmoid {
  float of, of_minus;
  [[gnu::always_inline]] explicit Sigmoid(float x) {
    const float e = exp_bounded(clamp_keep_nan(-x, -80.0f, 80.0f));
    of = 1.0f / (1.0f + e);
    of_minus = e * of;
  }
};

struct ClipRule {
  RatioBounds bounds;
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float advantage = tile.advantage[i], ratio = tile.ratio[i];
    const uint32_t gain = mask_of(advantage > 0), loss = mask_of(advantage < 0);
    const uint32_t high = gain & mask_of(ratio > bounds.high), low = loss & mask_of(ratio < bounds.low);
    const uint32_t dual = loss & mask_of(ratio > bounds.dual);
    float used = select(high, bounds.high, ratio);
    used = select(low, bounds.low, used);
    used = select(dual, bounds.dual, used);
    write_tile(tile, i, -advantage * used, select(~(high | low | dual), -advantage * used), high | low, dual);
  }
};

template <bool Dynamic>
struct SoftClipRule {
  float alpha;
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float d = tile.log_ratio[i], advantage = tile.advantage[i];
    // min(r, 1/r)^a = exp(-a |d|), which is finite even for r = 0.
    const float exponent = Dynamic ? alpha * (1.0f + Sigmoid(-advantage).of) : alpha;
    const float weight = exp_bounded(clamp_keep_nan(d - exponent * std::abs(d), -kExpLimit, kExpLimit));
    write_tile(tile, i, -advantage * weight, -advantage * weight);
  }
};

struct SapoRule {
  float positive, negative, threshold;  // temperatures for A > 0 and for A <= 0
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float advantage = tile.advantage[i], ratio = tile.ratio[i];
    const float tau = select(mask_of(advantage > 0), positive, negative);
    const Sigmoid gate(tau * (ratio - 1.0f));
    const float weight = 4.0f * gate.of * gate.of_minus;
    write_tile(tile, i, -advantage * (4.0f / tau) * gate.of, -advantage * weight * ratio);
    tile.saturated[i] = mask_of(weight < threshold);
  }
};

struct CeGppoRule {
  RatioBounds bounds;
  float low_weight, high_weight;  // beta1 (1 - clip_low), beta2 (1 + clip_high)
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float advantage = tile.advantage[i], ratio = tile.ratio[i];
    const uint32_t gain = mask_of(advantage > 0), loss = mask_of(advantage < 0);
    const uint32_t high = gain & mask_of(ratio > bounds.high), low = loss & mask_of(ratio < bounds.low);
    const float used = select(low, low_weight, select(high, high_weight, ratio));
    const uint32_t dual = loss & mask_of(used > bounds.dual);
    write_tile(tile, i, -advantage * select(dual, bounds.dual, used), select(~dual, -advantage * used), high | low,
               dual);
  }
};

struct CispoRule {
  RatioBounds bounds;
  uint32_t ratio_form;
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float ratio = tile.ratio[i];
    const float weight = clamp_keep_nan(ratio, bounds.low, bounds.high);
    const float slope = -tile.advantage[i] * weight;
    tile.loss[i] = select(ratio_form, slope, slope * tile.log_prob[i]);
    tile.grad[i] = select(~(ratio_form & tile.beyond[i]), slope);
    tile.clipped[i] = mask_of(ratio > bounds.high) | mask_of(ratio < bounds.low);
  }
};

struct LogProbRule {
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    tile.loss[i] = -tile.advantage[i] * tile.log_prob[i];
    tile.grad[i] = -tile.advantage[i];
  }
};

struct GipoRule {
  float inverse_sigma;
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float d = tile.log_ratio[i], scaled = d * inverse_sigma;
    const float weight = exp_bounded(clamp_keep_nan(d - 0.5f * scaled * scaled, -kExpLimit, kExpLimit));
    write_tile(tile, i, -tile.advantage[i] * weight, -tile.advantage[i] * weight);
  }
};

struct RatioRule {
  [[gnu::always_inline]] void operator()(Tile& tile, int64_t i) const {
    const float loss = -tile.advantage[i] * tile.ratio[i];
    write_tile(tile, i, loss, loss);
  }
};

// Narrows the clamp of the log-ratio to the given bounds of the ratio.
void bound_ratio(SurrogateJob& job, const ParameterValues& p) {
  const auto log_of = [](double ratio) { return static_cast<float>(std::log(ratio)); };
  job.lowest_log_ratio = std::max(-kMaxLogRatio, log_of(p.number_or("ratio_min", 1e-30)));
  job.highest_log_ratio = std::min(kMaxLogRatio, log_of(p.number_or("ratio_max", 1e30)));
  if (!(job.lowest_log_ratio < job.highest_log_ratio)) refuse_ratio_bounds(p);
}

}  // namespace

// max(-A r, -A clip(r)); with dual clip, at most -A c for A < 0 (Schulman et al. 2017, arXiv:1707.06347, eq. 7; dual
// clip: Ye et al. 2020, arXiv:1912.09729).
SurrogateSums clip_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  const SurrogateJob job(in, p, out);
  return run_rule(job, ClipRule{job.bounds});
}

// -A r min(r, 1/r)^alpha, where the last factor is a constant for the gradient (AcceRL, arXiv:2603.18464).
SurrogateSums soft_clip_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  const SurrogateJob job(in, p, out);
  const auto alpha = static_cast<float>(p.number("alpha"));
  return p.flag("dynamic_alpha") ? run_rule(job, SoftClipRule<true>{alpha}) : run_rule(job, SoftClipRule<false>{alpha});
}

// -A (4 / tau) sigmoid(tau (r - 1)) (SAPO, Gao et al. 2025, arXiv:2511.20347).
SurrogateSums sapo_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  bound_ratio(job, p);
  return run_rule(job, SapoRule{static_cast<float>(p.number("tau_pos")), static_cast<float>(p.number("tau_neg")),
                                static_cast<float>(p.number("saturation"))});
}

// -A r; beyond the bounds, a constant with gradient, times beta (CE-GPPO, Su et al. 2025, arXiv:2509.20712).
SurrogateSums ce_gppo_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  const SurrogateJob job(in, p, out);
  return run_rule(job, CeGppoRule{job.bounds, static_cast<float>(p.number("beta1") * job.bounds.low),
                                  static_cast<float>(p.number("beta2") * job.bounds.high)});
}

// -clip(r) A log_prob, where the first factor is a constant for the gradient (CISPO, MiniMax 2025, "MiniMax-M1",
// arXiv:2506.13585). `verl_compat` follows verl (github.com/volcengine/verl).
SurrogateSums cispo_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  SurrogateJob job(in, p, out);
  bound_ratio(job, p);
  const double unbounded = p.flag("verl_compat") ? p.number("clip") : std::numeric_limits<double>::infinity();
  job.bounds.low = static_cast<float>(1 - p.number_or("clip_low", unbounded));
  return run_rule(job, CispoRule{job.bounds, mask_of(p.text("form") == "ratio")});
}

// -A log_prob (Williams 1992, doi:10.1007/BF00992696).
SurrogateSums log_prob_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  return run_rule(SurrogateJob(in, p, out), LogProbRule{});
}

// -A r exp(-(log r / sigma)^2 / 2), where the last factor is a constant for the gradient (GIPO, as in AcceRL).
SurrogateSums gipo_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  return run_rule(SurrogateJob(in, p, out), GipoRule{static_cast<float>(1 / p.number("sigma"))});
}

// -A r.
SurrogateSums unclipped_surrogate(const SurrogateInput& in, const ParameterValues& p, const SurrogateOutput& out) {
  return run_rule(SurrogateJob(in, p, out), RatioRule{});
}

void SurrogateSums::merge(const SurrogateSums& other) {
  if (other.count > 0) {
    ratio_max = count == 0 ? other.ratio_max : std::max(ratio_max, other.ratio_max);
    ratio_min = count == 0 ? other.ratio_min : std::min(ratio_min, other.ratio_min);
  }
  for (auto member :
       {&SurrogateSums::loss, &SurrogateSums::count, &SurrogateSums::log_ratio, &SurrogateSums::log_ratio_squared,
        &SurrogateSums::k3, &SurrogateSums::clipped, &SurrogateSums::clipped_lower, &SurrogateSums::outside,
        &SurrogateSums::dead, &SurrogateSums::saturated, &SurrogateSums::ratio, &SurrogateSums::ratio_squared,
        &SurrogateSums::clamped, &SurrogateSums::clamped_squared})
    this->*member += other.*member;
}

SurrogateDiagnostics diagnostics_of(const SurrogateSums& sums) {
  SurrogateDiagnostics out;
  const double n = sums.count;
  if (n == 0) return out;
  const auto effective = [n](double sum, double squares) { return squares > 0 ? sum * sum / (n * squares) : 0.0; };
  out.kl_k1 = -sums.log_ratio / n;
  out.kl_k2 = 0.5 * sums.log_ratio_squared / n;
  out.kl_k3 = sums.k3 / n;
  out.clip_fraction = sums.clipped / n;
  out.clip_fraction_lower = sums.clipped_lower / n;
  out.outside_fraction = sums.outside / n;
  out.dead_gradient_fraction = sums.dead / n;
  out.saturated_fraction = sums.saturated / n;
  out.ess = effective(sums.ratio, sums.ratio_squared);
  out.ess_clamped = effective(sums.clamped, sums.clamped_squared);
  out.ratio_mean = sums.ratio / n;
  out.ratio_max = sums.ratio_max;
  out.ratio_min = sums.ratio_min;
  out.count = n;
  return out;
}

}  // namespace troupe
