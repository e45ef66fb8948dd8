#include "models/learning/sequence_advantages.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

// The input of an estimator, sequence after sequence.
struct Tokens {
  std::vector<int64_t> offsets;
  std::vector<int64_t> first{0};  // token of each sample of the sequences, and the number of tokens
  std::vector<float> rewards, values, baselines, log_probs, sum_pi_squared, weights;
};

// Joint probabilities of the executed decisions of a sample: log-probabilities add up, and the sums of squares of
// independent decisions multiply.
void append_joint(const SequenceAdvantageInput& in, int64_t sample, int64_t executed, Tokens& out) {
  float log_prob = 0.0f, squared = 1.0f;
  for (int64_t d = 0; d < executed; ++d) {
    log_prob += in.start->log_probs[sample * in.decisions + d];
    squared *= in.start->sum_pi_squared[sample * in.decisions + d];
  }
  out.log_probs.push_back(log_prob);
  out.sum_pi_squared.push_back(squared);
}

Tokens gather_tokens(const SequenceAdvantageInput& in, const StagedSamples& batch, int64_t per_sample) {
  const auto rewards = batch.rewards.view<float>(), values = batch.values.view<float>(),
             next_values = batch.next_values.view<float>();
  const auto append = [&](std::span<const float> source, int64_t sample, int64_t count, std::vector<float>& to) {
    to.insert(to.end(), source.begin() + sample * per_sample, source.begin() + sample * per_sample + count);
  };
  Tokens out;
  for (int64_t i = 0; i < in.sequences.count(); ++i) {
    const auto samples = in.sequences.samples_of(i);
    out.baselines.push_back(values[samples.front()]);
    for (const int64_t sample : samples) {
      const int64_t executed = batch.decisions_of(sample), count = per_sample == 1 ? 1 : executed;
      out.rewards.resize(out.rewards.size() + count, 0.0f);
      out.rewards.back() = rewards[sample];
      out.values.resize(out.values.size() + count, values[sample]);
      out.first.push_back(static_cast<int64_t>(out.rewards.size()));
      if (!in.weights.empty()) append(in.weights, sample, count, out.weights);
      if (in.start == nullptr) continue;
      if (per_sample == 1) {
        append_joint(in, sample, executed, out);
      } else {
        append(in.start->log_probs, sample, count, out.log_probs);
        append(in.start->sum_pi_squared, sample, count, out.sum_pi_squared);
      }
    }
    if (!in.sequences.complete[i]) out.rewards.back() += static_cast<float>(in.gamma) * next_values[samples.back()];
  }
  for (const int64_t offset : in.sequences.offsets) out.offsets.push_back(out.first[offset]);
  return out;
}

}  // namespace

TokenAdvantages estimate_sequences(const AlgorithmChoice& choice, const SequenceAdvantageInput& in,
                                   const StagedSamples& batch) {
  const bool needs_policy = needs_probabilities(choice);
  TROUPE_CHECK(!needs_policy || in.start != nullptr, choice.advantage->name);
  const int64_t per_sample = needs_policy && in.per_decision ? in.decisions : 1;
  const Tokens tokens = gather_tokens(in, batch, per_sample);
  AdvantageInput input;
  input.sequences = TokenSequences(tokens.offsets);
  input.rewards = tokens.rewards;
  input.groups = in.groups;
  input.values = tokens.values;
  input.baselines = tokens.baselines;
  input.old_log_probs = tokens.log_probs;
  input.sum_pi_squared = tokens.sum_pi_squared;
  input.rollout_is_weights = tokens.weights;
  std::vector<float> advantages(tokens.rewards.size()), returns(tokens.rewards.size());
  estimate_advantages(*choice.advantage, input, choice.advantage_parameters, {advantages, returns});
  TokenAdvantages out{per_sample, std::vector<float>(batch.count * per_sample)};
  for (size_t i = 0; i < in.sequences.samples.size(); ++i)
    std::copy_n(advantages.begin() + tokens.first[i], tokens.first[i + 1] - tokens.first[i],
                out.values.begin() + in.sequences.samples[i] * per_sample);
  return out;
}

}  // namespace troupe
