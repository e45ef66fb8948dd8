#include "models/minibatch.h"

#include <algorithm>
#include <utility>

#include "runtime/rng.h"

namespace troupe {

namespace {

template <class T>
std::span<const T> gather(std::span<const T> source, std::span<const int64_t> rows, int64_t width,
                          std::vector<T>& out) {
  out.resize(rows.size() * static_cast<size_t>(width));
  T* target = out.data();
  for (int64_t row : rows) target = std::copy_n(source.data() + row * width, width, target);
  return out;
}

}  // namespace

std::span<float> Minibatch::inputs(const StagedRows& batch, std::span<const int64_t> rows,
                                   const FeatureScaling& scaling) {
  inputs_.resize(rows.size() * static_cast<size_t>(encoder_.features()));
  encoder_.encode(batch.observations, rows, scaling, inputs_);
  return inputs_;
}

LossInput Minibatch::action_input(const StagedRows& batch, std::span<const int64_t> rows) {
  LossInput result;
  const int64_t decisions = head_.decisions();
  result.head.rows = static_cast<int64_t>(rows.size());
  if (head_.mask_size() > 0)
    result.head.mask = gather(batch.action_mask.view<uint8_t>(), rows, head_.mask_size(), mask_);
  if (head_.continuous())
    result.actions.continuous = gather(batch.actions.view<float>(), rows, decisions, continuous_);
  else
    result.actions.discrete = gather(batch.actions.view<int32_t>(), rows, decisions, discrete_);
  result.old_log_probs = gather(batch.log_probs.view<float>(), rows, decisions, log_probs_);
  return result;
}

LossInput Minibatch::loss_input(const StagedRows& batch, const Targets& targets, std::span<const int64_t> rows) {
  LossInput result = action_input(batch, rows);
  result.advantages = gather(std::span<const float>(targets.advantages), rows, 1, advantages_);
  result.old_values = gather(std::span<const float>(targets.values), rows, 1, values_);
  result.returns = gather(std::span<const float>(targets.returns), rows, 1, returns_);
  return result;
}

std::vector<int64_t> shuffled(std::span<const int64_t> rows, uint64_t key) {
  std::vector<int64_t> result(rows.begin(), rows.end());
  Rng rng(key);
  // Fisher-Yates. Multiply-shift leaves a bias below size / 2^32, far under what a shuffle could show.
  for (uint64_t i = result.size(); i > 1; --i) std::swap(result[i - 1], result[(rng.next_u32() * i) >> 32]);
  return result;
}

}  // namespace troupe
