#include "models/learning/minibatch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/learning/targets.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

template <class T>
std::span<const T> gather(std::span<const T> source, std::span<const int64_t> samples, int64_t width,
                          std::vector<T>& out) {
  out.resize(samples.size() * static_cast<size_t>(width));
  T* target = out.data();
  for (int64_t sample : samples) target = std::copy_n(source.data() + sample * width, width, target);
  return out;
}

// The number of entries per sample, if `source` has entries for all samples.
template <class T>
int64_t width_of(const std::vector<T>& source, int64_t samples) {
  return samples == 0 ? 0 : static_cast<int64_t>(source.size()) / samples;
}

}  // namespace

LossInput Minibatch::action_input(const StagedSamples& batch, std::span<const int64_t> samples) {
  LossInput result;
  const int64_t decisions = head_.decisions();
  result.head.samples = static_cast<int64_t>(samples.size());
  if (head_.mask_size() > 0)
    result.head.mask = gather(batch.action_mask.view<uint8_t>(), samples, head_.mask_size(), mask_);
  if (!batch.executed.empty()) result.head.executed = gather(batch.executed.view<int32_t>(), samples, 1, executed_);
  if (head_.continuous())
    result.actions.continuous = gather(batch.actions.view<float>(), samples, decisions, continuous_);
  else
    result.actions.discrete = gather(batch.actions.view<int32_t>(), samples, decisions, discrete_);
  result.behaviour_log_probs = gather(batch.log_probs.view<float>(), samples, decisions, log_probs_);
  result.old_log_probs = result.behaviour_log_probs;
  if (!batch.policy_parameters.empty())
    result.behaviour_parameters =
        gather(batch.policy_parameters.view<float>(), samples, head_.parameter_count(), parameters_);
  return result;
}

LossInput Minibatch::loss_input(const StagedSamples& batch, const Targets& targets, SampleRange range) {
  const auto gather_samples = [&](const auto& source, auto& out) {
    return gather(std::span<const float>(source), range.indices, width_of(source, batch.count), out);
  };
  LossInput result = action_input(batch, range.indices);
  result.advantages = gather_samples(targets.advantages, advantages_);
  result.old_values = gather_samples(targets.values, values_);
  result.returns = gather_samples(targets.returns, returns_);
  if (!targets.old_log_probs.empty()) result.old_log_probs = gather_samples(targets.old_log_probs, old_log_probs_);
  if (!targets.rollout_weights.empty()) result.rollout_weights = gather_samples(targets.rollout_weights, weights_);
  result.kept = kept(batch, targets, range.indices);
  result.offsets = range.offsets;
  result.lags = lags(batch, range.indices);
  return result;
}

std::span<const uint8_t> Minibatch::lags(const StagedSamples& batch, std::span<const int64_t> samples) {
  if (batch.lags.empty()) return {};
  return gather(std::span<const uint8_t>(batch.lags), samples, 1, lags_);
}

std::span<const uint8_t> Minibatch::kept(const StagedSamples& batch, const Targets& targets,
                                         std::span<const int64_t> samples) {
  if (targets.kept.empty()) return {};
  return gather(std::span<const uint8_t>(targets.kept), samples, width_of(targets.kept, batch.count), kept_);
}

namespace {

std::vector<int64_t> permutation(std::span<const int64_t> indices, uint64_t key) {
  std::vector<int64_t> result(indices.begin(), indices.end());
  Rng rng(key);
  // Fisher-Yates. The bias of multiply-shift is below size / 2^32, too small to matter here.
  for (uint64_t i = result.size(); i > 1; --i) std::swap(result[i - 1], result[(rng.next_u32() * i) >> 32]);
  return result;
}

}  // namespace

EpochOrder shuffled(std::span<const int64_t> indices, uint64_t key) { return {permutation(indices, key), {}}; }

EpochOrder shuffled(const Sequences& sequences, uint64_t key) {
  std::vector<int64_t> order(static_cast<size_t>(sequences.count()));
  std::iota(order.begin(), order.end(), 0);
  EpochOrder result;
  result.offsets = {0};
  for (const int64_t i : permutation(order, key)) {
    const auto samples = sequences.samples_of(i);
    result.indices.insert(result.indices.end(), samples.begin(), samples.end());
    result.offsets.push_back(static_cast<int64_t>(result.indices.size()));
  }
  return result;
}

std::vector<SampleRange> minibatches(const EpochOrder& order, int64_t parts) {
  const std::span<const int64_t> indices(order.indices), offsets(order.offsets);
  const auto total = static_cast<int64_t>(indices.size());
  std::vector<SampleRange> result;
  size_t begin = 0;  // an index, or a place in offsets
  for (int64_t i = 1; i <= parts; ++i) {
    const int64_t wanted = i * total / parts;
    size_t end = static_cast<size_t>(wanted);
    if (offsets.empty()) {
      result.push_back({indices.subspan(begin, end - begin), {}});
    } else {
      end = std::lower_bound(offsets.begin() + begin, offsets.end(), wanted) - offsets.begin();
      if (end > begin && offsets[end] - wanted > wanted - offsets[end - 1]) --end;
      result.push_back(
          {indices.subspan(offsets[begin], offsets[end] - offsets[begin]), offsets.subspan(begin, end - begin + 1)});
    }
    begin = end;
  }
  return result;
}

std::vector<SampleRange> micro_batches(SampleRange minibatch, int64_t size) {
  if (minibatch.size() == 0) return {};
  if (size == 0) return {minibatch};
  const auto& [indices, offsets] = minibatch;
  std::vector<SampleRange> result;
  if (offsets.empty()) {
    for (int64_t begin = 0; begin < minibatch.size(); begin += size)
      result.push_back({indices.subspan(begin, std::min(size, minibatch.size() - begin)), {}});
    return result;
  }
  for (size_t begin = 0; begin + 1 < offsets.size();) {
    size_t end = begin + 1;
    while (end + 1 < offsets.size() && offsets[end + 1] - offsets[begin] <= size) ++end;
    result.push_back({indices.subspan(offsets[begin] - offsets.front(), offsets[end] - offsets[begin]),
                      offsets.subspan(begin, end - begin + 1)});
    begin = end;
  }
  return result;
}

}  // namespace troupe
