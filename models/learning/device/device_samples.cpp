#include "models/learning/device/device_samples.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <string>

#include "algorithms/losses/device/upload.h"
#include "models/networks/replica.h"
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

void scale_on_device(const InputEncoder& encoder, const FeatureScaling& scaling, std::vector<at::Tensor>& inputs) {
  if (scaling.mean.empty()) return;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t first = encoder.first_features()[i];
    if (first < 0) continue;
    const auto of_input = [&](const std::vector<float>& all) {
      const auto features = static_cast<size_t>(inputs[i].size(1));
      return upload(std::span<const float>(all).subspan(static_cast<size_t>(first), features), inputs[i].device());
    };
    inputs[i].sub_(of_input(scaling.mean)).mul_(of_input(scaling.inverse_std));
    if (scaling.clip > 0.0f) inputs[i].clamp_(-scaling.clip, scaling.clip);  // clamp_ keeps NaN
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
