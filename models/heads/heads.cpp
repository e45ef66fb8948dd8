#include "models/heads/heads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "models/heads/vector_math.h"

namespace troupe {

namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kHalfLogTwoPi = 0.91893853320467274f;

// The softmax of one decision before the division: weights[j] = exp(logits[j] - largest), 0 where masked.
struct Softmax {
  float largest;
  float sum;
};

// Throws when the mask forbids all bins.
Softmax softmax_weights(const float* logits, const uint8_t* mask, int64_t bins, int64_t sample, float* weights) {
  float largest = kLowest;
  if (mask == nullptr) {
    largest = largest_of(logits, bins);
    exp_of_differences(logits, largest, bins, weights);
  } else {
    bool any = false;
    for (int64_t j = 0; j < bins; ++j)
      if (mask[j]) any = true, largest = std::max(largest, logits[j]);
    if (!any) throw InvariantError("action mask: sample " + std::to_string(sample) + " allows no action");
    exp_of_differences(logits, largest, bins, weights);
    for (int64_t j = 0; j < bins; ++j)
      if (!mask[j]) weights[j] = 0.0f;
  }
  return {largest, sum_of(weights, bins)};
}

// The bin that the uniform number u in [0, 1) falls into. A bin of weight 0 is never chosen.
int64_t inverse_cdf(const float* weights, int64_t bins, float sum, float u) {
  const float target = u * sum;
  float cumulative = 0.0f;
  int64_t j = 0, last_possible = 0;
  // Skips whole blocks before the one that contains the bin. The last bins are checked one by one.
  for (; j + 2 * kLanes <= bins; j += kLanes) {
    const float block = sum_of(weights + j, kLanes);
    if (cumulative + block > target) break;
    cumulative += block;
  }
  for (; j < bins; ++j) {
    if (weights[j] == 0.0f) continue;
    cumulative += weights[j];
    if (cumulative > target) return j;
    last_possible = j;  // the sum was rounded up: the last bin takes the rest
  }
  return last_possible;
}

// z = (action - mean) / std.
float gaussian_log_prob(float z, float log_std) { return -0.5f * z * z - log_std - kHalfLogTwoPi; }

std::vector<float> inverse_stds(std::span<const float> log_std) {
  std::vector<float> result;
  for (float x : log_std) result.push_back(std::exp(-x));
  return result;
}

// x - y kept finite, so that 0 * (x - y) is 0.
float finite_difference(float x, float y) { return std::clamp(x - y, kLowest, std::numeric_limits<float>::max()); }

[[noreturn]] void refuse_action(int64_t sample, int64_t decision, int32_t action, int64_t bins) {
  throw InvariantError("sample " + std::to_string(sample) + ", decision " + std::to_string(decision) + ": action " +
                       std::to_string(action) + " is masked or not in 0.." + std::to_string(bins - 1));
}

}  // namespace

int64_t first_non_finite_row(std::span<const float> values, int64_t rows) {
  const int64_t width = rows == 0 ? 0 : static_cast<int64_t>(values.size()) / rows;
  if (all_finite(values.data(), rows * width)) return -1;
  for (int64_t row = 0; row < rows; ++row)
    if (!all_finite(values.data() + row * width, width)) return row;
  return -1;
}

Head::Head(const ActionSpec& action)
    : continuous_(action.kind == ActionKind::continuous), decisions_(action.decisions()) {
  TROUPE_CHECK(action.chunk >= 1 && action.dims() >= 1, action.chunk, action.dims());
  TROUPE_CHECK(!action.masked || (!continuous_ && action.chunk == 1), action.chunk);
  if (continuous_) {
    outputs_ = decisions_;
    return;
  }
  for (int32_t step = 0; step < action.chunk; ++step) {
    for (int32_t bins : action.bins) {
      TROUPE_CHECK(bins >= 1, bins);
      layout_.push_back({outputs_, bins});
      outputs_ += bins;
      most_bins_ = std::max<int64_t>(most_bins_, bins);
    }
  }
  if (action.masked) mask_size_ = outputs_;
}

void Head::check(const HeadInput& input) const {
  TROUPE_CHECK(static_cast<int64_t>(input.outputs.size()) == input.samples * outputs_, input.outputs.size(),
               input.samples, outputs_);
  TROUPE_CHECK(static_cast<int64_t>(input.mask.size()) == input.samples * mask_size_, input.mask.size(), input.samples,
               mask_size_);
  TROUPE_CHECK(static_cast<int64_t>(input.log_std.size()) == (continuous_ ? decisions_ : 0), input.log_std.size());
  TROUPE_CHECK(input.executed.empty() || static_cast<int64_t>(input.executed.size()) == input.samples,
               input.executed.size(), input.samples);
  if (!all_finite(input.log_std.data(), static_cast<int64_t>(input.log_std.size())))
    throw NotFinite("policy log_std is not finite");
}

int64_t Head::executed(const HeadInput& input, int64_t sample) const {
  if (input.executed.empty()) return decisions_;
  const int64_t count = input.executed[sample];
  TROUPE_CHECK(count >= 0 && count <= decisions_, sample, count, decisions_);
  return count;
}

// Checks one sample at a time, so that it is in the cache for the computation that follows.
void Head::check_sample(const HeadInput& input, int64_t sample) const { check_outputs(input, sample, 0, outputs_); }

void Head::check_outputs(const HeadInput& input, int64_t sample, int64_t first, int64_t count) const {
  if (!all_finite(input.outputs.data() + sample * outputs_ + first, count))
    throw NotFinite("policy output of sample " + std::to_string(sample) + " is not finite");
}

void Head::check_sampling(const HeadInput& input, std::span<const int64_t> seeds,
                          std::span<const uint8_t> deterministic, size_t actions, size_t log_probs) const {
  check(input);
  const auto wanted = static_cast<size_t>(input.samples * decisions_);
  TROUPE_CHECK(actions == wanted && log_probs == wanted, actions, log_probs, wanted);
  TROUPE_CHECK(static_cast<int64_t>(seeds.size()) == input.samples &&
                   static_cast<int64_t>(deterministic.size()) == input.samples,
               seeds.size(), deterministic.size(), input.samples);
}

void Head::sample(const HeadInput& input, std::span<const int64_t> seeds, std::span<const uint8_t> deterministic,
                  MutableActionsView actions, std::span<float> log_probs) const {
  check_sampling(input, seeds, deterministic, continuous_ ? actions.continuous.size() : actions.discrete.size(),
                 log_probs.size());
  std::vector<float> weights(static_cast<size_t>(most_bins_));
  for (int64_t sample = 0; sample < input.samples; ++sample) {
    check_sample(input, sample);
    const bool greedy = deterministic[sample] != 0;
    const int64_t begin = sample * decisions_;
    Rng rng(static_cast<uint64_t>(seeds[sample]));
    if (continuous_) {
      sample_continuous(input, sample, rng, greedy, actions.continuous.data() + begin, log_probs.data() + begin);
      continue;
    }
    for (int64_t d = 0; d < decisions_; ++d)
      draw_decision(input, sample, d, greedy, rng, actions.discrete[begin + d], log_probs[begin + d], weights);
  }
}

void Head::sample_decision(const HeadInput& input, int64_t decision, std::span<const int64_t> seeds,
                           std::span<const uint8_t> deterministic, std::span<int32_t> actions,
                           std::span<float> log_probs) const {
  TROUPE_CHECK(!continuous_ && decision >= 0 && decision < decisions_, decision, decisions_);
  check_sampling(input, seeds, deterministic, actions.size(), log_probs.size());
  const auto [first, bins] = layout_[decision];
  std::vector<float> weights(static_cast<size_t>(bins));
  for (int64_t sample = 0; sample < input.samples; ++sample) {
    check_outputs(input, sample, first, bins);
    const int64_t i = sample * decisions_ + decision;
    Rng rng = Rng::at(static_cast<uint64_t>(seeds[sample]), static_cast<uint64_t>(decision));
    draw_decision(input, sample, decision, deterministic[sample] != 0, rng, actions[i], log_probs[i], weights);
  }
}

// One number of the stream for each decision: sample_decision() relies on it.
void Head::draw_decision(const HeadInput& input, int64_t sample, int64_t decision, bool deterministic, Rng& rng,
                         int32_t& action, float& log_prob, std::span<float> weights) const {
  const auto [first, bins] = layout_[decision];
  const float* logits = input.outputs.data() + sample * outputs_ + first;
  const uint8_t* mask = mask_size_ == 0 ? nullptr : input.mask.data() + sample * mask_size_ + first;
  const Softmax softmax = softmax_weights(logits, mask, bins, sample, weights.data());
  const int64_t drawn = deterministic ? std::max_element(weights.begin(), weights.begin() + bins) - weights.begin()
                                      : inverse_cdf(weights.data(), bins, softmax.sum, rng.uniform());
  action = static_cast<int32_t>(drawn);
  log_prob = finite_difference(logits[drawn], softmax.largest) - std::log(softmax.sum);
}

void Head::sample_continuous(const HeadInput& input, int64_t sample, Rng& rng, bool deterministic, float* actions,
                             float* log_probs) const {
  for (int64_t d = 0; d < decisions_; ++d) {
    const float mean = input.outputs[sample * decisions_ + d], log_std = input.log_std[d];
    actions[d] = deterministic ? mean : mean + std::exp(log_std) * rng.normal();
    log_probs[d] = gaussian_log_prob((actions[d] - mean) * std::exp(-log_std), log_std);
  }
}

void Head::evaluate(const HeadInput& input, ActionsView actions, std::span<float> log_probs, std::span<float> entropy,
                    HeadScratch& scratch) const {
  check(input);
  const int64_t wanted = input.samples * decisions_;
  const size_t given = continuous_ ? actions.continuous.size() : actions.discrete.size();
  TROUPE_CHECK(static_cast<int64_t>(given) == wanted && static_cast<int64_t>(log_probs.size()) == wanted, given,
               wanted);
  TROUPE_CHECK(static_cast<int64_t>(entropy.size()) == input.samples, entropy.size(), input.samples);
  if (continuous_) {
    std::vector<float> entropy_of{0.0f};  // of the first decisions
    for (float log_std : input.log_std) entropy_of.push_back(entropy_of.back() + (0.5f + kHalfLogTwoPi + log_std));
    const std::vector<float> inverse_std = inverse_stds(input.log_std);
    for (int64_t sample = 0; sample < input.samples; ++sample) {
      check_sample(input, sample);
      const int64_t count = executed(input, sample), begin = sample * decisions_;
      entropy[sample] = entropy_of[count];
      for (int64_t d = 0, i = begin; d < count; ++d, ++i)
        log_probs[i] = gaussian_log_prob((actions.continuous[i] - input.outputs[i]) * inverse_std[d], input.log_std[d]);
      std::fill_n(log_probs.begin() + begin + count, decisions_ - count, 0.0f);
    }
    return;
  }
  scratch.probabilities.resize(input.samples * outputs_);
  scratch.log_normalizers.resize(wanted);
  scratch.decision_entropies.resize(wanted);
  for (int64_t sample = 0; sample < input.samples; ++sample) {
    check_sample(input, sample);
    entropy[sample] = 0.0f;
    const int64_t count = executed(input, sample);
    for (int64_t d = 0; d < count; ++d) {
      const auto [first, bins] = layout_[d];
      const float* logits = input.outputs.data() + sample * outputs_ + first;
      const uint8_t* mask = mask_size_ == 0 ? nullptr : input.mask.data() + sample * mask_size_ + first;
      float* weights = scratch.probabilities.data() + sample * outputs_ + first;
      const int64_t i = sample * decisions_ + d;
      const int32_t action = actions.discrete[i];
      if (action < 0 || action >= bins || (mask != nullptr && !mask[action])) refuse_action(sample, d, action, bins);

      const Softmax softmax = softmax_weights(logits, mask, bins, sample, weights);
      const float log_sum = std::log(softmax.sum), scale = 1.0f / softmax.sum;
      for (int64_t j = 0; j < bins; ++j) weights[j] *= scale;
      const float expected = weighted_difference_sum(weights, logits, softmax.largest, bins);
      scratch.log_normalizers[i] = softmax.largest + log_sum;
      scratch.decision_entropies[i] = log_sum - expected;
      entropy[sample] += log_sum - expected;
      log_probs[i] = finite_difference(logits[action], softmax.largest) - log_sum;
    }
    if (count == decisions_) continue;
    std::fill_n(log_probs.begin() + sample * decisions_ + count, decisions_ - count, 0.0f);
    std::fill_n(scratch.probabilities.begin() + sample * outputs_ + layout_[count].first,
                outputs_ - layout_[count].first, 0.0f);
  }
}

void Head::sum_squared_probabilities(const HeadScratch& scratch, std::span<float> out) const {
  TROUPE_CHECK(!continuous_);
  const int64_t samples = static_cast<int64_t>(out.size()) / decisions_;
  TROUPE_CHECK(static_cast<int64_t>(scratch.probabilities.size()) == samples * outputs_, scratch.probabilities.size(),
               samples);
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (int64_t d = 0; d < decisions_; ++d) {
      const float* p = scratch.probabilities.data() + sample * outputs_ + layout_[d].first;
      double sum = 0;
      for (int64_t j = 0; j < layout_[d].bins; ++j) sum += double{p[j]} * p[j];
      out[sample * decisions_ + d] = static_cast<float>(sum);
    }
  }
}

void Head::backward(const HeadInput& input, ActionsView actions, std::span<const float> log_prob_gradients,
                    float entropy_gradient, const HeadScratch& scratch, std::span<float> output_gradients,
                    std::span<float> log_std_gradients) const {
  TROUPE_CHECK(output_gradients.size() == input.outputs.size(), output_gradients.size(), input.outputs.size());
  TROUPE_CHECK(static_cast<int64_t>(log_prob_gradients.size()) == input.samples * decisions_,
               log_prob_gradients.size());
  if (continuous_) {
    // dlogp/dmean = (a - mean) / std^2, dlogp/dlog_std = z^2 - 1, dH/dlog_std = 1.
    TROUPE_CHECK(static_cast<int64_t>(log_std_gradients.size()) == decisions_, log_std_gradients.size());
    const std::vector<float> inverse_std = inverse_stds(input.log_std);
    for (int64_t sample = 0; sample < input.samples; ++sample) {
      const int64_t count = executed(input, sample), begin = sample * decisions_;
      std::fill_n(output_gradients.begin() + begin + count, decisions_ - count, 0.0f);
      for (int64_t d = 0, i = begin; d < count; ++d, ++i) {
        const float z = (actions.continuous[i] - input.outputs[i]) * inverse_std[d];
        output_gradients[i] = log_prob_gradients[i] * z * inverse_std[d];
        log_std_gradients[d] += log_prob_gradients[i] * (z * z - 1.0f) + entropy_gradient;
      }
    }
    return;
  }
  // dlogp_a/dlogit_j = [a = j] - p_j, dH/dlogit_j = -p_j (log p_j + H).
  for (int64_t sample = 0; sample < input.samples; ++sample) {
    const int64_t count = executed(input, sample);
    if (count < decisions_)
      std::fill_n(output_gradients.begin() + sample * outputs_ + layout_[count].first, outputs_ - layout_[count].first,
                  0.0f);
    for (int64_t d = 0; d < count; ++d) {
      const auto [first, bins] = layout_[d];
      const int64_t i = sample * decisions_ + d, begin = sample * outputs_ + first;
      const float* probabilities = scratch.probabilities.data() + begin;
      float* gradients = output_gradients.data() + begin;
      const float g = log_prob_gradients[i];
      for (int64_t j = 0; j < bins; ++j) gradients[j] = -g * probabilities[j];
      gradients[actions.discrete[i]] += g;
      if (entropy_gradient == 0.0f) continue;
      const float shift = scratch.log_normalizers[i] - scratch.decision_entropies[i];
      const float* logits = input.outputs.data() + begin;
      for (int64_t j = 0; j < bins; ++j)
        gradients[j] -= entropy_gradient * probabilities[j] * finite_difference(logits[j], shift);
    }
  }
}

}  // namespace troupe
