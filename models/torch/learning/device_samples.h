#pragma once
// The samples of a staged batch on a device: the network's inputs, the actions taken, and the training targets. Plain
// functions; place_samples() on the prefetcher's thread. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "models/learning/chunks.h"
#include "models/learning/scaling_history.h"
#include "models/learning/staging.h"
#include "models/learning/targets.h"
#include "models/networks/inputs.h"
#include "models/torch/learning/batch_tensors.h"
#include "models/torch/learning/device_head.h"

namespace troupe {

// Undefined where StagedSamples has an empty array.
struct DeviceSamples {
  BatchTensors network;    // inputs normalised only when the update begins
  at::Tensor actions;      // [B, D] as DeviceHead::evaluate() takes them
  at::Tensor action_mask;  // [B, M] bool
  at::Tensor log_probs;    // [B, D] of the behaviour policy
  at::Tensor executed;     // [B] int32
};

// Copies to the device. Throws InvariantError naming the sample and the decision when an action is not valid.
DeviceSamples place_samples(const StagedSamples& samples, const Chunks& chunks, const DeviceHead& head,
                            at::Device device);

// Normalises encoded inputs in place, as scale_samples() does.
void scale_on_device(const InputEncoder& encoder, const SampleScalings& scalings, std::span<const int64_t> of,
                     std::vector<at::Tensor>& inputs);

// As Targets; undefined where that is empty.
struct DeviceTargets {
  at::Tensor advantages;       // [B, 1] or [B, D]
  at::Tensor values, returns;  // [B]
  at::Tensor old_log_probs;    // [B, D]
  at::Tensor rollout_weights;  // [B, C]
  at::Tensor kept;             // [B, C] bool
};
DeviceTargets place_targets(const Targets& targets, int64_t samples, at::Device device);

}  // namespace troupe
