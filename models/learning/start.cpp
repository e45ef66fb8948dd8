#include "models/learning/start.h"

#include <algorithm>
#include <limits>

#include "models/learning/row_passes.h"

namespace troupe {

Start evaluate_start(const StagedRows& batch, const CurrentNetwork& network, const Head& head, Minibatch& minibatch,
                     bool probabilities) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto before = batch.values.view<float>();
  const int64_t decisions = head.decisions();
  Start result{{before.begin(), before.end()}, {}};
  result.policy.log_probs.resize(batch.rows * decisions);
  result.policy.sum_pi_squared.resize(probabilities ? batch.rows * decisions : 0);
  std::vector<float> log_probs, squared, entropy;
  HeadScratch scratch;
  for_each_pass(batch.sample_rows, network.rows_per_pass, [&](std::span<const int64_t> rows) {
    const RowOutputs says = network.evaluate(rows);
    LossInput input = minibatch.action_input(batch, rows);
    input.head.outputs = says.outputs;
    input.head.log_std = network.log_std;
    log_probs.assign(rows.size() * decisions, kNaN);
    squared.assign(rows.size() * decisions, kNaN);
    entropy.resize(rows.size());
    if (first_non_finite_row(input.head.outputs, input.head.rows) < 0) {
      head.evaluate(input.head, input.actions, log_probs, entropy, scratch);
      if (probabilities) head.sum_squared_probabilities(scratch, squared);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      result.values[rows[i]] = says.values[i] * network.units.scale + network.units.shift;
      std::copy_n(log_probs.begin() + i * decisions, decisions, result.policy.log_probs.begin() + rows[i] * decisions);
      if (probabilities)
        std::copy_n(squared.begin() + i * decisions, decisions,
                    result.policy.sum_pi_squared.begin() + rows[i] * decisions);
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
