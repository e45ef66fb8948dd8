#include "models/learning/start.h"

#include <algorithm>
#include <limits>

#include "models/learning/sample_passes.h"

namespace troupe {

SampleEvaluation HostEvaluation::evaluate(const StagedSamples& batch, std::span<const int64_t> samples,
                                          SampleOutputs said, std::span<const float> log_std, bool probabilities) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const size_t decisions = samples.size() * static_cast<size_t>(head_.decisions());
  LossInput input = minibatch_.action_input(batch, samples);
  input.head.outputs = said.outputs;
  input.head.log_std = log_std;
  log_probs_.assign(decisions, kNaN);
  squared_.assign(probabilities ? decisions : 0, kNaN);
  entropy_.resize(samples.size());
  if (first_non_finite_row(input.head.outputs, input.head.samples) < 0) {
    head_.evaluate(input.head, input.actions, log_probs_, entropy_, scratch_);
    if (probabilities) head_.sum_squared_probabilities(scratch_, squared_);
  }
  return {log_probs_, squared_, said.values};
}

Start evaluate_start(const StagedSamples& batch, const CurrentNetwork& network, int64_t decisions, bool probabilities) {
  const auto before = batch.values.view<float>();
  Start result{{before.begin(), before.end()}, {}};
  result.policy.log_probs.resize(batch.count * decisions);
  result.policy.sum_pi_squared.resize(probabilities ? batch.count * decisions : 0);
  for_each_pass(batch.trained, network.samples_per_pass, [&](std::span<const int64_t> samples) {
    const SampleEvaluation says = network.evaluate(samples, probabilities);
    for (size_t i = 0; i < samples.size(); ++i) {
      result.values[samples[i]] = says.values[i] * network.units.scale + network.units.shift;
      const auto copy = [&](std::span<const float> from, std::vector<float>& to) {
        std::copy_n(from.begin() + i * decisions, decisions, to.begin() + samples[i] * decisions);
      };
      copy(says.log_probs, result.policy.log_probs);
      if (probabilities) copy(says.sum_pi_squared, result.policy.sum_pi_squared);
    }
  });
  return result;
}

void evaluate_bootstraps(const CurrentNetwork& network, StagedSamples& batch) {
  const auto next_values = batch.next_values.mutable_view<float>();
  const auto bootstraps = static_cast<int64_t>(batch.bootstrap_samples.size());
  for (int64_t begin = 0; begin < bootstraps; begin += network.samples_per_pass) {
    const int64_t end = std::min(bootstraps, begin + network.samples_per_pass);
    const auto values = network.bootstrap_values(begin, end);
    for (int64_t i = begin; i < end; ++i)
      next_values[batch.bootstrap_samples[i]] = values[i - begin] * network.units.scale + network.units.shift;
  }
}

}  // namespace troupe
