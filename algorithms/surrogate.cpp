#include "algorithms/surrogate.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "algorithms/names.h"
#include "algorithms/tile.h"

namespace troupe {

namespace {

// Where the clipped ratio stops counting. Clipping is active on strict inequality only.
struct Bounds {
  float low, high, dual;
};

Bounds check(const SurrogateInput& in, const SurrogateParams& params) {
  const std::size_t n = in.log_probs.size();
  TROUPE_CHECK(in.old_log_probs.size() == n && in.advantages.size() == n && fits_or_empty(in.mask, n), "log_probs", n,
               "old_log_probs", in.old_log_probs.size(), "advantages", in.advantages.size(), "mask", in.mask.size());
  TROUPE_CHECK(params.clip_low >= 0 && params.clip_high >= 0, "clip_low", params.clip_low, "clip_high",
               params.clip_high);
  TROUPE_CHECK(params.dual_clip == 0 || params.dual_clip > 1, "dual_clip", params.dual_clip, "want 0 (off) or above 1");
  return {1 - params.clip_low, 1 + params.clip_high,
          params.dual_clip == 0 ? std::numeric_limits<float>::infinity() : params.dual_clip};
}

// Runs a rule (advantage, ratio) -> {loss, d loss / d log_prob} over every element. Masked elements are made harmless
// before the exponential; the clamp of the log-ratio has no gradient outside its range.
template <bool HasMask, class Rule, class Count>
inline void ratio_tile(const SurrogateInput& in, const SurrogateOutput& out, int64_t at, Count count, Rule rule) {
  const float* log_probs = in.log_probs.data() + at;
  const float* old_log_probs = in.old_log_probs.data() + at;
  const float* advantages = in.advantages.data() + at;
  const uint8_t* mask = in.mask.data() + (HasMask ? at : 0);
  float* __restrict loss = out.loss.data() + at;
  float* __restrict grad = out.grad.data() + at;
  uint32_t live[kTile];
  for (int64_t i = 0; i < count; ++i) live[i] = HasMask ? mask_of(mask[i] != 0) : ~0u;
  for (int64_t i = 0; i < count; ++i) {
    const float log_ratio = select(live[i], log_probs[i] - old_log_probs[i]);
    const uint32_t beyond = mask_of(log_ratio > kMaxLogRatio) | mask_of(log_ratio < -kMaxLogRatio);
    float element_loss, element_grad;
    rule(select(live[i], advantages[i]), ratio_of(log_ratio), element_loss, element_grad);
    loss[i] = select(live[i], element_loss);
    grad[i] = select(live[i] & ~beyond, element_grad);
  }
}

template <class Rule>
void for_each_ratio(const SurrogateInput& in, const SurrogateOutput& out, Rule rule) {
  const auto n = static_cast<int64_t>(in.log_probs.size());
  TROUPE_CHECK(out.loss.size() == in.log_probs.size() && out.grad.size() == in.log_probs.size(), "loss",
               out.loss.size(), "grad", out.grad.size(), "log_probs", n);
  for_each_tile(n, [&](int64_t at, auto count) {
    if (in.mask.empty()) {
      ratio_tile<false>(in, out, at, count, rule);
    } else {
      ratio_tile<true>(in, out, at, count, rule);
    }
  });
}

// Where each of the two clips takes effect, as masks.
struct ClipMasks {
  uint32_t too_high, too_low, dual;
};

inline ClipMasks clip_masks(const Bounds& bounds, float advantage, float ratio) {
  const uint32_t gain = mask_of(advantage > 0);
  const uint32_t loss = mask_of(advantage < 0);
  return {gain & mask_of(ratio > bounds.high), loss & mask_of(ratio < bounds.low), loss & mask_of(ratio > bounds.dual)};
}

// max(-A r, -A clip(r)), and min(-A c, .) of that for A < 0 (Schulman et al. 2017 eq. 7; Ye et al. 2020 for the dual
// clip).
void clip_surrogate(const SurrogateInput& in, const SurrogateParams& params, const SurrogateOutput& out) {
  const Bounds bounds = check(in, params);
  for_each_ratio(in, out, [bounds](float advantage, float ratio, float& loss, float& grad) {
    const ClipMasks clip = clip_masks(bounds, advantage, ratio);
    float used = select(clip.too_high, bounds.high, ratio);
    used = select(clip.too_low, bounds.low, used);
    used = select(clip.dual, bounds.dual, used);
    loss = -advantage * used;
    grad = select(~(clip.too_high | clip.too_low | clip.dual), loss);
  });
}

// -A r.
void unclipped_surrogate(const SurrogateInput& in, const SurrogateParams& params, const SurrogateOutput& out) {
  check(in, params);
  for_each_ratio(in, out, [](float advantage, float ratio, float& loss, float& grad) {
    loss = -advantage * ratio;
    grad = loss;
  });
}

constexpr std::array kTable = {
    SurrogateEntry{"clip", clip_surrogate},
    SurrogateEntry{"ppo", clip_surrogate},
    SurrogateEntry{"none", unclipped_surrogate},
};

// Running sums of the diagnostics.
struct Sums {
  double n = 0, k1 = 0, k3 = 0, clip = 0, dual = 0, outside = 0, dead = 0;
  double ratio = 0, ratio_squared = 0, clamped = 0, clamped_squared = 0, ratio_max = 0;

  void add(const Bounds& bounds, float advantage, float log_ratio) {
    const float ratio = ratio_of(log_ratio);
    const ClipMasks clip_here = clip_masks(bounds, advantage, ratio);
    const bool clipped = (clip_here.too_high | clip_here.too_low) != 0;
    const bool beyond = log_ratio > kMaxLogRatio || log_ratio < -kMaxLogRatio;
    const double d = clamp_keep_nan(log_ratio, -kMaxLogRatio, kMaxLogRatio);
    const double w = clamp_keep_nan(ratio, bounds.low, bounds.high);
    n += 1;
    k1 -= d;
    k3 += std::expm1(d) - d;  // not r - 1 - d: r is near 1, and the difference is of the size of its rounding
    clip += clipped;
    dual += clip_here.dual != 0;
    outside += ratio < bounds.low || ratio > bounds.high;
    dead += clipped || clip_here.dual != 0 || beyond;
    this->ratio += ratio;
    ratio_squared += double{ratio} * ratio;
    clamped += w;
    clamped_squared += w * w;
    if (!(ratio <= ratio_max)) ratio_max = ratio;
  }
};

double effective_fraction(double n, double sum, double squares) {
  return squares > 0 ? sum * sum / (n * squares) : 0.0;
}

}  // namespace

std::span<const SurrogateEntry> surrogate_table() { return kTable; }

SurrogateFunction find_surrogate(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SurrogateEntry& entry : kTable) names.push_back(entry.name);
  return kTable[find_name("algorithm.surrogate", name, names)].function;
}

SurrogateDiagnostics surrogate_diagnostics(const SurrogateInput& in, const SurrogateParams& params) {
  const Bounds bounds = check(in, params);
  Sums sums;
  for (std::size_t i = 0; i < in.log_probs.size(); ++i) {
    if (!in.mask.empty() && in.mask[i] == 0) continue;
    sums.add(bounds, in.advantages[i], in.log_probs[i] - in.old_log_probs[i]);
  }
  SurrogateDiagnostics out;
  if (sums.n == 0) return out;
  out.kl_k1 = sums.k1 / sums.n;
  out.kl_k3 = sums.k3 / sums.n;
  out.clip_fraction = sums.clip / sums.n;
  out.clip_fraction_lower = sums.dual / sums.n;
  out.outside_fraction = sums.outside / sums.n;
  out.dead_gradient_fraction = sums.dead / sums.n;
  out.ess = effective_fraction(sums.n, sums.ratio, sums.ratio_squared);
  out.ess_clamped = effective_fraction(sums.n, sums.clamped, sums.clamped_squared);
  out.ratio_mean = sums.ratio / sums.n;
  out.ratio_max = sums.ratio_max;
  out.count = sums.n;
  return out;
}

}  // namespace troupe
