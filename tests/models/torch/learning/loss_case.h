#pragma once
// Random samples of a minibatch, for the two forms of the loss.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/heads/heads.h"
#include "models/learning/policy_loss.h"
#include "tests/models/learning/batches.h"

namespace troupe::test {

inline bool flip(Rng& rng, float probability) { return rng.uniform() < probability; }

// Samples of a minibatch in the format of both forms, with random values for everything that the settings need.
struct Case {
  EnvSpec spec;
  Head head;
  AlgorithmChoice choice;
  int64_t samples, per_sample;
  std::vector<float> outputs, log_std, old_log_probs, behaviour, advantages, values, old_values, returns, weights,
      continuous;
  std::vector<int32_t> discrete, executed;
  std::vector<uint8_t> mask, kept, lags;
  std::vector<int64_t> offsets;
  LossTotals totals;
  LossSettings settings;

  Case(const EnvSpec& env, const AlgorithmConfig& config, uint64_t seed)
      : spec(env), head(env.action), choice(choose_algorithm(config)) {
    Rng rng(seed);
    samples = 1 + static_cast<int64_t>(rng.below(60));
    per_sample = choice.per_decision ? head.decisions() : 1;
    draw_network(rng);
    draw_actions(rng);
    draw_samples(rng);
    draw_sequences(rng);
    settings.entropy_coef = flip(rng, 0.7f) ? 0.05 : 0.0;
    settings.kl_coef = config.kl_coef;
    settings.train_policy = flip(rng, 0.9f);
    settings.key = seed;
    totals = count_loss(samples, offsets, per_sample, kept);
    if (flip(rng, 0.5f)) totals.samples += 13, totals.counts += {13.0 * static_cast<double>(per_sample), 3};
    for (int64_t i = 0; i < samples; ++i) lags.push_back(static_cast<uint8_t>(rng.below(kLagClasses)));
  }

  std::vector<float> normals(Rng& rng, int64_t count, float scale) const {
    std::vector<float> result(static_cast<size_t>(count));
    for (float& x : result) x = scale * rng.normal();
    return result;
  }

  void draw_network(Rng& rng) {
    outputs = normals(rng, samples * head.outputs(), 1.5f);
    if (head.continuous()) log_std = normals(rng, head.decisions(), 0.5f);
    values = normals(rng, samples, 1.0f);
    old_values = normals(rng, samples, 1.0f);
    returns = normals(rng, samples, 2.0f);
  }

  void draw_actions(Rng& rng) {
    const int64_t decisions = head.decisions();
    if (spec.action.chunk > 1 && flip(rng, 0.7f))
      for (int64_t sample = 0; sample < samples; ++sample)
        executed.push_back(static_cast<int32_t>(1 + rng.below(static_cast<uint64_t>(decisions))));
    for (int64_t i = 0; i < samples * head.mask_size(); ++i) mask.push_back(flip(rng, 0.6f));
    for (int64_t sample = 0; sample < samples; ++sample) {
      for (int64_t d = 0; d < decisions; ++d) {
        const bool done = executed.empty() || d < executed[static_cast<size_t>(sample)];
        if (head.continuous()) {
          continuous.push_back(done ? rng.normal() : std::numeric_limits<float>::quiet_NaN());
          continue;
        }
        const auto [first, bins] = head.layout()[static_cast<size_t>(d)];
        const auto action = static_cast<int32_t>(rng.below(static_cast<uint64_t>(bins)));
        discrete.push_back(done ? action : 1'000'000);
        if (!mask.empty()) mask[static_cast<size_t>(sample * head.mask_size() + first + action)] = 1;
      }
    }
  }

  // Random old log-probabilities, for ratios near 1 or far from it.
  void draw_samples(Rng& rng) {
    const size_t decisions = static_cast<size_t>(samples * head.decisions());
    std::vector<float> entropy(static_cast<size_t>(samples));
    HeadScratch scratch;
    old_log_probs.resize(decisions);
    head.evaluate({samples, outputs, log_std, mask, executed}, {discrete, continuous}, old_log_probs, entropy, scratch);
    const bool far = flip(rng, 0.3f);
    behaviour = old_log_probs;
    for (size_t i = 0; i < decisions; ++i) {
      old_log_probs[i] += 0.3f * rng.normal();
      behaviour[i] += 0.4f * rng.normal();
      if (far && flip(rng, 0.1f)) old_log_probs[i] += 20.0f * rng.normal();
      const auto sample = static_cast<int64_t>(i) / head.decisions(), d = static_cast<int64_t>(i) % head.decisions();
      if (!executed.empty() && d >= executed[static_cast<size_t>(sample)])
        old_log_probs[i] = behaviour[i] = std::numeric_limits<float>::quiet_NaN();
    }
    advantages = normals(rng, samples * (flip(rng, 0.5f) ? per_sample : 1), 1.0f);
    if (flip(rng, 0.2f)) std::ranges::fill(advantages, 0.0f);
    if (flip(rng, 0.4f))
      for (int64_t i = 0; i < samples * per_sample; ++i) weights.push_back(0.2f + 2.0f * rng.uniform());
  }

  void draw_sequences(Rng& rng) {
    const float share = flip(rng, 0.1f) ? 0.0f : 0.7f;  // the share that is not rejected: none, or 70 %
    const bool cut = choice.per_decision && !executed.empty();
    if (cut || flip(rng, 0.5f))
      for (int64_t i = 0; i < samples * per_sample; ++i)
        kept.push_back(flip(rng, share) && (!cut || i % per_sample < executed[static_cast<size_t>(i / per_sample)]));
    if (!choice.whole_sequences && flip(rng, 0.5f)) return;
    offsets = {7};
    while (offsets.back() < 7 + samples)
      offsets.push_back(std::min(7 + samples, offsets.back() + 1 + static_cast<int64_t>(rng.below(9))));
  }
};

}  // namespace troupe::test
