#include "models/torch/learning/device_samples.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <string>

#include "algorithms/losses/torch/upload.h"
#include "models/torch/replica.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

at::Tensor place(const Array& array, at::Device device) {
  return array.empty() ? at::Tensor() : upload(tensor_view(array), device);
}

std::vector<at::Tensor> place(const std::vector<Array>& arrays, at::Device device) {
  std::vector<at::Tensor> result;
  for (const Array& array : arrays) result.push_back(upload(tensor_view(array), device));
  return result;
}

// [B, width]
template <class T>
at::Tensor place(const std::vector<T>& numbers, int64_t samples, at::Device device) {
  return numbers.empty() ? at::Tensor() : upload(std::span<const T>(numbers), device).view({samples, -1});
}

// Checks actions on the host. On a device, an index out of range would end the process, and training on an action that
// its mask forbids would not be noticed.
void check_actions(const StagedSamples& samples, const Head& head) {
  if (head.continuous()) return;
  const auto actions = samples.actions.view<int32_t>();
  for (const int64_t sample : samples.trained) {
    for (int64_t d = 0; d < samples.decisions_of(sample); ++d) {
      const auto [first, bins] = head.layout()[static_cast<size_t>(d)];
      const int32_t action = actions[static_cast<size_t>(sample * head.decisions() + d)];
      bool possible = action >= 0 && action < bins;
      if (possible && head.mask_size() > 0)
        possible =
            samples.action_mask.view<uint8_t>()[static_cast<size_t>(sample * head.mask_size() + first + action)] != 0;
      if (!possible)
        throw InvariantError("sample " + std::to_string(sample) + ", decision " + std::to_string(d) + ": action " +
                             std::to_string(action) + " is masked or not in 0.." + std::to_string(bins - 1));
    }
  }
}

}  // namespace

DeviceSamples place_samples(const StagedSamples& samples, const Chunks& chunks, const DeviceHead& head,
                            at::Device device) {
  const at::NoGradGuard guard;
  check_actions(samples, head.host());
  DeviceSamples result;
  result.network.inputs = place(samples.inputs, device);
  result.network.bootstrap_inputs = place(samples.bootstrap_inputs, device);
  if (chunks.steps > 0) {
    result.network.states = upload(tensor_view(chunks.states), device);
    result.network.starts = upload(tensor_view(chunks.starts), device);
  }
  result.actions = head.actions(upload(tensor_view(samples.actions), device));
  if (head.host().mask_size() > 0) result.action_mask = upload(tensor_view(samples.action_mask), device).to(at::kBool);
  result.log_probs = upload(tensor_view(samples.log_probs), device);
  result.executed = place(samples.executed, device);
  return result;
}

void scale_on_device(const InputEncoder& encoder, const SampleScalings& scalings, std::span<const int64_t> of,
                     std::vector<at::Tensor>& inputs) {
  if (scalings.all.empty() || scalings.all.front().mean.empty() || inputs.empty()) return;
  const at::Device device = inputs.front().device();
  const at::Tensor index = of.empty() ? at::Tensor() : upload(of, device);
  const float clip = scalings.all.front().clip;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t first = encoder.first_features()[i];
    if (first < 0) continue;
    // [features], or [B, features] where the samples differ
    const auto of_input = [&](std::vector<float> FeatureScaling::* part) {
      const int64_t features = inputs[i].size(1);
      std::vector<float> table;
      for (const FeatureScaling& scaling : scalings.all) {
        const auto begin = (scaling.*part).begin() + first;
        table.insert(table.end(), begin, begin + features);
      }
      const at::Tensor rows = upload(std::span<const float>(table), device).view({-1, features});
      return index.defined() ? rows.index_select(0, index) : rows.select(0, 0);
    };
    inputs[i].sub_(of_input(&FeatureScaling::mean)).mul_(of_input(&FeatureScaling::inverse_std));
    if (clip > 0.0f) inputs[i].clamp_(-clip, clip);  // clamp_ keeps NaN
  }
}

DeviceTargets place_targets(const Targets& targets, int64_t samples, at::Device device) {
  DeviceTargets result;
  result.advantages = place(targets.advantages, samples, device);
  result.values = upload(std::span<const float>(targets.values), device);
  result.returns = upload(std::span<const float>(targets.returns), device);
  result.old_log_probs = place(targets.old_log_probs, samples, device);
  result.rollout_weights = place(targets.rollout_weights, samples, device);
  result.kept = place(targets.kept, samples, device);
  return result;
}

}  // namespace troupe
