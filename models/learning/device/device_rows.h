#pragma once
// The rows of a staged batch on a device: what its network reads, what its samples did, and what they are trained
// towards. Plain functions; place_rows() on the prefetcher's thread. Includes LibTorch: for the sources of models/
// only.

#include <ATen/core/Tensor.h>

#include "models/learning/batch_tensors.h"
#include "models/learning/chunks.h"
#include "models/learning/device/device_head.h"
#include "models/learning/staging.h"
#include "models/learning/targets.h"
#include "models/networks/inputs.h"

namespace troupe {

// Undefined where StagedRows has an empty array.
struct DeviceRows {
  BatchTensors network;    // inputs normalised only when the update begins
  at::Tensor actions;      // [R, D] as DeviceHead::evaluate() takes them
  at::Tensor action_mask;  // [R, M] bool
  at::Tensor log_probs;    // [R, D] of the behaviour policy
  at::Tensor executed;     // [R] int32
};

// Copies to the device. Throws InvariantError naming the row when a sample did what is no possible action.
DeviceRows place_rows(const StagedRows& rows, const Chunks& chunks, const DeviceHead& head, at::Device device);

// Normalises encoded inputs in place, as InputEncoder::scale() does.
void scale_on_device(const InputEncoder& encoder, const FeatureScaling& scaling, std::vector<at::Tensor>& inputs);

// As Targets; undefined where that is empty.
struct DeviceTargets {
  at::Tensor advantages;       // [R, 1] or [R, D]
  at::Tensor values, returns;  // [R]
  at::Tensor old_log_probs;    // [R, D]
  at::Tensor rollout_weights;  // [R, C]
  at::Tensor kept;             // [R, C] bool
};
DeviceTargets place_targets(const Targets& targets, int64_t rows, at::Device device);

}  // namespace troupe
