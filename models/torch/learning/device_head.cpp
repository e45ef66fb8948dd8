#include "models/torch/learning/device_head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr float kHalfLogTwoPi = 0.91893853320467274f;

// Replaces infinity by the largest finite number, so that 0 * x is 0.
at::Tensor finite(const at::Tensor& x) {
  return x.clamp(std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

at::Tensor without(const at::Tensor& x, const at::Tensor& cut) { return cut.defined() ? x.masked_fill(cut, 0) : x; }

at::Tensor numbers(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::TensorOptions().dtype(at::kLong)).to(device);
}

}  // namespace

DeviceHead::DeviceHead(const Head& head, at::Device device) : head_(head) {
  const int64_t decisions = head.decisions();
  decision_ = at::arange(decisions, at::TensorOptions().dtype(at::kInt)).to(device);
  if (head.continuous()) return;
  std::vector<int64_t> last, columns, places(static_cast<size_t>(head.outputs()));
  for (const Head::Decision& decision : head.layout()) {
    bins_ = std::max(bins_, decision.bins);
    last.push_back(decision.bins - 1);
  }
  last_bin_ = numbers(last, device);
  if (decisions * bins_ == head.outputs()) return;
  at::Tensor padding = at::zeros({decisions, bins_}, at::TensorOptions().dtype(at::kBool));
  for (int64_t d = 0; d < decisions; ++d) {
    const auto [first, bins] = head.layout()[static_cast<size_t>(d)];
    for (int64_t j = 0; j < bins_; ++j) {
      if (j < bins) places[static_cast<size_t>(first + j)] = static_cast<int64_t>(columns.size());
      columns.push_back(j < bins ? first + j : 0);
    }
    padding[d].slice(0, bins, bins_).fill_(true);
  }
  columns_ = numbers(columns, device);
  padding_ = padding.to(device);
  places_ = numbers(places, device);
}

at::Tensor DeviceHead::actions(const at::Tensor& stored) const {
  return head_.continuous() ? stored : at::minimum(stored.to(at::kLong).clamp_min_(0), last_bin_);
}

// [B, D, K] from [B, P].
at::Tensor DeviceHead::by_decision(const at::Tensor& samples) const {
  const at::Tensor wide = columns_.defined() ? samples.index_select(1, columns_) : samples;
  return wide.reshape({samples.size(0), head_.decisions(), bins_});
}

DeviceHead::Evaluation DeviceHead::evaluate(const DeviceHeadInput& input, const at::Tensor& actions) const {
  TROUPE_CHECK(input.outputs.dim() == 2 && input.outputs.size(1) == head_.outputs(), input.outputs.dim());
  Evaluation result = head_.continuous() ? evaluate_continuous(input, actions) : evaluate_discrete(input, actions);
  result.log_probs = without(result.log_probs, result.cut);
  return result;
}

// Computes the same as Head::evaluate(). The largest logit is subtracted, so that no exponential overflows.
DeviceHead::Evaluation DeviceHead::evaluate_discrete(const DeviceHeadInput& input, const at::Tensor& actions) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Evaluation result;
  if (input.executed.defined()) result.cut = input.executed.unsqueeze(1) <= decision_;
  const at::Tensor logits = by_decision(input.outputs);
  at::Tensor possible = logits;
  if (input.mask.defined()) possible = possible.masked_fill(by_decision(input.mask).logical_not(), -kInfinity);
  if (padding_.defined()) possible = possible.masked_fill(padding_, -kInfinity);
  const at::Tensor largest = possible.amax(2, /*keepdim=*/true), below = finite(logits - largest);
  const at::Tensor weights = (possible - largest).exp(), sum = weights.sum(2, /*keepdim=*/true);
  const at::Tensor log_sum = sum.log();
  result.probabilities = weights / sum;
  const at::Tensor expected = (result.probabilities * below).sum(2, /*keepdim=*/true);
  result.surplus = finite(below - expected);
  result.chosen = actions.unsqueeze(2);
  result.log_probs = (below.gather(2, result.chosen) - log_sum).squeeze(2);
  result.entropy = without((log_sum - expected).squeeze(2), result.cut).sum(1);
  return result;
}

DeviceHead::Evaluation DeviceHead::evaluate_continuous(const DeviceHeadInput& input, const at::Tensor& actions) const {
  Evaluation result;
  if (input.executed.defined()) result.cut = input.executed.unsqueeze(1) <= decision_;
  result.inverse_std = input.log_std.neg().exp();
  result.z = without((actions - input.outputs) * result.inverse_std, result.cut);
  result.log_probs = result.z * result.z * -0.5f - input.log_std - kHalfLogTwoPi;
  const at::Tensor entropies = (input.log_std + (0.5f + kHalfLogTwoPi)).expand_as(result.z);
  result.entropy = without(entropies, result.cut).sum(1);
  return result;
}

at::Tensor DeviceHead::sum_squared_probabilities(const Evaluation& evaluation) const {
  const at::Tensor sums = evaluation.probabilities.to(at::kDouble).square().sum(2).to(at::kFloat);
  return without(sums, evaluation.cut);
}

DeviceHead::Gradients DeviceHead::backward(const Evaluation& evaluation, const at::Tensor& log_prob_gradients,
                                           double entropy_gradient) const {
  const at::Tensor g = without(log_prob_gradients, evaluation.cut);
  const double of_entropy = static_cast<float>(entropy_gradient);
  if (head_.continuous()) {
    // dlogp/dmean = (a - mean) / std^2, dlogp/dlog_std = z^2 - 1, dH/dlog_std = 1.
    const at::Tensor& z = evaluation.z;
    const at::Tensor of_log_std = without(g * (z * z - 1) + of_entropy, evaluation.cut);
    return {g * z * evaluation.inverse_std, of_log_std.sum(0, false, at::kDouble).to(at::kFloat)};
  }
  // dlogp_a/dlogit_j = [a = j] - p_j, dH/dlogit_j = -p_j (log p_j + H).
  const at::Tensor& p = evaluation.probabilities;
  at::Tensor result = (p * g.unsqueeze(2).neg()).scatter_add_(2, evaluation.chosen, g.unsqueeze(2));
  if (of_entropy != 0.0) result = result - p * evaluation.surplus * of_entropy;
  if (evaluation.cut.defined()) result = result.masked_fill(evaluation.cut.unsqueeze(2), 0);
  result = result.reshape({result.size(0), head_.decisions() * bins_});
  return {places_.defined() ? result.index_select(1, places_) : result, {}};
}

}  // namespace troupe
