#pragma once
// What a network reads of a staged batch, as tensors on its device. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe {

struct BatchTensors {
  std::vector<at::Tensor> inputs;            // each [B, ...]
  std::vector<at::Tensor> bootstrap_inputs;  // each [C, ...]
  // With recurrent state; else undefined.
  at::Tensor states;   // [K, S] float32 before the first steps of the chunks
  at::Tensor starts;   // [B] uint8: an episode begins with this sample
  at::Tensor actions;  // [B, D] int32 with an autoregressive network; else undefined
};

}  // namespace troupe
