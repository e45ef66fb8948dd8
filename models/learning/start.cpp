#include "models/learning/start.h"

#include <algorithm>
#include <limits>

#include "models/learning/sample_passes.h"

namespace troupe {

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// The rows of a [rows, width] block that hold NaN or infinity.
std::vector<size_t> non_finite_rows(std::span<const float> block, size_t rows) {
  std::vector<size_t> result;
  if (first_non_finite_row(block, static_cast<int64_t>(rows)) < 0) return result;
  const size_t width = block.size() / rows;
  for (size_t row = 0; row < rows; ++row)
    if (first_non_finite_row(block.subspan(row * width, width), 1) == 0) result.push_back(row);
  return result;
}

void fill_rows(std::span<float> block, std::span<const size_t> which, size_t rows, float value) {
  const size_t width = rows > 0 ? block.size() / rows : 0;
  for (const size_t row : which) std::ranges::fill(block.subspan(row * width, width), value);
}

}  // namespace

SampleEvaluation HostEvaluation::evaluate(const StagedSamples& batch, std::span<const int64_t> samples,
                                          SampleOutputs said, std::span<const float> log_std, bool probabilities) {
  const size_t decisions = samples.size() * static_cast<size_t>(head_.decisions());
  LossInput input = minibatch_.action_input(batch, samples);
  const std::vector<size_t> lost = non_finite_rows(said.outputs, samples.size());
  input.head.outputs = said.outputs;
  if (!lost.empty()) {  // the head does not accept such rows
    finite_outputs_.assign(said.outputs.begin(), said.outputs.end());
    fill_rows(finite_outputs_, lost, samples.size(), 0.0f);
    input.head.outputs = finite_outputs_;
  }
  input.head.log_std = log_std;
  log_probs_.resize(decisions);
  squared_.resize(probabilities ? decisions : 0);
  entropy_.resize(samples.size());
  head_.evaluate(input.head, input.actions, log_probs_, entropy_, scratch_);
  if (probabilities) head_.sum_squared_probabilities(scratch_, squared_);
  for (std::vector<float>* numbers : {&log_probs_, &squared_}) fill_rows(*numbers, lost, samples.size(), kNaN);
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
