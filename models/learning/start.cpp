#include "models/learning/start.h"

#include <algorithm>
#include <limits>

#include "models/learning/row_passes.h"

namespace troupe {

RowEvaluation HostEvaluation::evaluate(const StagedRows& batch, std::span<const int64_t> rows, RowOutputs said,
                                       std::span<const float> log_std, bool probabilities) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const size_t decisions = rows.size() * static_cast<size_t>(head_.decisions());
  LossInput input = minibatch_.action_input(batch, rows);
  input.head.outputs = said.outputs;
  input.head.log_std = log_std;
  log_probs_.assign(decisions, kNaN);
  squared_.assign(probabilities ? decisions : 0, kNaN);
  entropy_.resize(rows.size());
  if (first_non_finite_row(input.head.outputs, input.head.rows) < 0) {
    head_.evaluate(input.head, input.actions, log_probs_, entropy_, scratch_);
    if (probabilities) head_.sum_squared_probabilities(scratch_, squared_);
  }
  return {log_probs_, squared_, said.values};
}

Start evaluate_start(const StagedRows& batch, const CurrentNetwork& network, int64_t decisions, bool probabilities) {
  const auto before = batch.values.view<float>();
  Start result{{before.begin(), before.end()}, {}};
  result.policy.log_probs.resize(batch.rows * decisions);
  result.policy.sum_pi_squared.resize(probabilities ? batch.rows * decisions : 0);
  for_each_pass(batch.sample_rows, network.rows_per_pass, [&](std::span<const int64_t> rows) {
    const RowEvaluation says = network.evaluate(rows, probabilities);
    for (size_t i = 0; i < rows.size(); ++i) {
      result.values[rows[i]] = says.values[i] * network.units.scale + network.units.shift;
      const auto copy = [&](std::span<const float> from, std::vector<float>& to) {
        std::copy_n(from.begin() + i * decisions, decisions, to.begin() + rows[i] * decisions);
      };
      copy(says.log_probs, result.policy.log_probs);
      if (probabilities) copy(says.sum_pi_squared, result.policy.sum_pi_squared);
    }
  });
  return result;
}

void evaluate_bootstraps(const CurrentNetwork& network, StagedRows& batch) {
  const auto next_values = batch.next_values.mutable_view<float>();
  const auto bootstraps = static_cast<int64_t>(batch.bootstrap_rows.size());
  for (int64_t begin = 0; begin < bootstraps; begin += network.rows_per_pass) {
    const int64_t end = std::min(bootstraps, begin + network.rows_per_pass);
    const auto values = network.bootstrap_values(begin, end);
    for (int64_t i = begin; i < end; ++i)
      next_values[batch.bootstrap_rows[i]] = values[i - begin] * network.units.scale + network.units.shift;
  }
}

}  // namespace troupe
