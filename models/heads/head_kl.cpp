// Head: the parameters of its distributions, and the closed-form divergence between two of them. In double, because
// near the policy that acted the divergence is a small difference of large terms.

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/heads/heads.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// The logits of one decision; a masked category has probability 0.
struct Categories {
  const float* logits;
  const uint8_t* mask;  // nullptr = all allowed
  int64_t bins;
  double log_normalizer;

  Categories(const float* logits, const uint8_t* mask, int64_t bins) : logits(logits), mask(mask), bins(bins) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < bins; ++j)
      if (allowed(j)) largest = std::max(largest, double{logits[j]});
    for (int64_t j = 0; j < bins; ++j)
      if (allowed(j)) sum += std::exp(logits[j] - largest);
    log_normalizer = largest + std::log(sum);
  }
  bool allowed(int64_t j) const { return mask == nullptr || mask[j] != 0; }
  double log_probability(int64_t j) const { return logits[j] - log_normalizer; }
};

double kl_of(const Categories& old, const Categories& now) {
  double sum = 0;
  for (int64_t j = 0; j < old.bins; ++j) {
    const double p = old.allowed(j) ? std::exp(old.log_probability(j)) : 0.0;
    if (p != 0) sum += p * (old.log_probability(j) - now.log_probability(j));  // also where p is NaN
  }
  return std::max(sum, 0.0);  // rounding; NaN stays
}

struct Gaussian {
  double mean, log_std;
};

double kl_of(const Gaussian& old, const Gaussian& now) {
  const double distance = old.mean - now.mean, scale = std::exp(-2 * now.log_std);
  const double shrinkage = now.log_std - old.log_std;
  return std::max(shrinkage + 0.5 * (std::expm1(-2 * shrinkage) + distance * distance * scale), 0.0);
}

}  // namespace

void Head::parameters(const HeadInput& input, std::span<float> out) const {
  check(input);
  const int64_t width = parameter_count();
  TROUPE_CHECK(static_cast<int64_t>(out.size()) == input.samples * width, out.size(), input.samples, width);
  for (int64_t sample = 0; sample < input.samples; ++sample) {
    const auto end = std::copy_n(input.outputs.begin() + sample * outputs_, outputs_, out.begin() + sample * width);
    std::ranges::copy(input.log_std, end);
  }
}

// Calls f(sample, decision, parameters of the old policy from that decision on) for every executed decision.
template <class F>
void Head::for_each_decision(const HeadInput& input, std::span<const float> old, F f) const {
  const int64_t width = parameter_count();
  TROUPE_CHECK(static_cast<int64_t>(old.size()) == input.samples * width, old.size(), input.samples, width);
  for (int64_t sample = 0; sample < input.samples; ++sample) {
    const int64_t count = executed(input, sample);
    for (int64_t d = 0; d < count; ++d)
      f(sample, d, old.data() + sample * width + (continuous_ ? d : layout_[d].first));
  }
}

void Head::kl(const HeadInput& input, std::span<const float> old, std::span<float> out) const {
  check(input);
  TROUPE_CHECK(static_cast<int64_t>(out.size()) == input.samples * decisions_, out.size(), input.samples, decisions_);
  std::ranges::fill(out, 0.0f);
  for_each_decision(input, old, [&](int64_t sample, int64_t d, const float* before) {
    double value = 0;
    if (continuous_) {
      value = kl_of(Gaussian{before[0], before[decisions_]},
                    Gaussian{input.outputs[sample * decisions_ + d], input.log_std[d]});
    } else {
      const auto [first, bins] = layout_[d];
      const uint8_t* mask = mask_size_ == 0 ? nullptr : input.mask.data() + sample * mask_size_ + first;
      value = kl_of(Categories(before, mask, bins),
                    Categories(input.outputs.data() + sample * outputs_ + first, mask, bins));
    }
    out[sample * decisions_ + d] = static_cast<float>(value);
  });
}

void Head::add_kl_gradients(const HeadInput& input, std::span<const float> old, std::span<const float> weights,
                            std::span<float> output_gradients, std::span<float> log_std_gradients) const {
  TROUPE_CHECK(static_cast<int64_t>(weights.size()) == input.samples * decisions_, weights.size());
  TROUPE_CHECK(output_gradients.size() == input.outputs.size(), output_gradients.size(), input.outputs.size());
  for_each_decision(input, old, [&](int64_t sample, int64_t d, const float* before) {
    const double weight = weights[sample * decisions_ + d];
    if (weight == 0) return;
    if (continuous_) {
      // dKL/dmean = (mean - old mean) / std^2, dKL/dlog_std = 1 - (old std^2 + (mean - old mean)^2) / std^2.
      const int64_t i = sample * decisions_ + d;
      const double scale = std::exp(-2.0 * input.log_std[d]), distance = double{input.outputs[i]} - before[0];
      const double old_variance = std::exp(2.0 * before[decisions_]);
      output_gradients[i] += static_cast<float>(weight * distance * scale);
      log_std_gradients[d] += static_cast<float>(weight * (1 - (old_variance + distance * distance) * scale));
      return;
    }
    // dKL/dlogit_j = q_j - p_j.
    const auto [first, bins] = layout_[d];
    const uint8_t* mask = mask_size_ == 0 ? nullptr : input.mask.data() + sample * mask_size_ + first;
    const Categories p(before, mask, bins), q(input.outputs.data() + sample * outputs_ + first, mask, bins);
    float* gradients = output_gradients.data() + sample * outputs_ + first;
    for (int64_t j = 0; j < bins; ++j)
      if (p.allowed(j))
        gradients[j] += static_cast<float>(weight * (std::exp(q.log_probability(j)) - std::exp(p.log_probability(j))));
  });
}

}  // namespace troupe
