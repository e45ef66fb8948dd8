#pragma once
// The policy surrogates as tensor operations, for tokens on a device. algorithms/losses/surrogate.h
// describes surrogates, their parameters and diagnostics. Pure functions; any thread. Includes LibTorch:
// only for sources that link it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithms/losses/surrogate.h"
#include "algorithms/losses/torch/device_sequences.h"

namespace troupe {

// n tokens, one sequence after the other.
struct DeviceSurrogateInput {
  at::Tensor log_probs;        // [n] float32, like the next two
  at::Tensor old_log_probs;    // [n]
  at::Tensor advantages;       // [n]
  at::Tensor mask;             // [n] bool, or undefined = all; masked tokens may be anything, NaN included
  at::Tensor rollout_weights;  // [n] float32, or undefined = 1
  const DeviceSequences& sequences;
  int64_t live = 0;         // number of unmasked tokens
  uint64_t key = 0;         // selects the random stream of clip_cov
  at::Tensor classes = {};  // [n] int64 of each token, below class_count; or undefined
  int64_t class_count = 0;
};

// Not yet multiplied by the weights of sequences.
struct DeviceSurrogateOutput {
  at::Tensor loss;           // [n] float32, 0 where masked
  at::Tensor grad;           // [n] d loss / d log_prob, 0 where masked
  at::Tensor sums;           // [kSurrogateSums] float64, for read_sums()
  at::Tensor by_class = {};  // [class_count, kClassSums] float64, for read_class_sums(); undefined without classes
};

inline constexpr int64_t kSurrogateSums = 15;
// Converts the sums of `live` tokens, copied to host memory.
SurrogateSums read_sums(std::span<const double> sums, int64_t live);

inline constexpr int64_t kClassSums = 6;
// Converts the sums of one class, copied to host memory.
ClassSums read_class_sums(std::span<const double> sums);

using DeviceSurrogateFunction = DeviceSurrogateOutput (*)(const DeviceSurrogateInput&, const ParameterValues&);

struct DeviceSurrogateEntry {
  std::string_view name;
  DeviceSurrogateFunction function;
};

// One entry for each entry of surrogate_table(), with the same name.
std::span<const DeviceSurrogateEntry> device_surrogate_table();
// nullptr when the surrogate with this name has no device version.
const DeviceSurrogateEntry* find_device_surrogate(std::string_view name);

}  // namespace troupe
