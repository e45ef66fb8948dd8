#pragma once
// The policy surrogates (algorithms/losses/surrogate.h) as tensor operations, for tokens on a device. What a surrogate
// is, its parameters and its diagnostics are said there. Pure functions; any thread. Includes LibTorch: for sources
// that link it only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithms/losses/device/device_sequences.h"
#include "algorithms/losses/surrogate.h"

namespace troupe {

// n tokens, sequence after sequence.
struct DeviceSurrogateInput {
  at::Tensor log_probs;        // [n] float32, like the next two
  at::Tensor old_log_probs;    // [n]
  at::Tensor advantages;       // [n]
  at::Tensor mask;             // [n] bool, or undefined = all; tokens with false may hold anything
  at::Tensor rollout_weights;  // [n] float32, or undefined = 1
  const DeviceSequences& sequences;
  int64_t live = 0;  // tokens with a true mask
  uint64_t key = 0;  // names the random stream of clip_cov
};

// Without the weights of sequences.
struct DeviceSurrogateOutput {
  at::Tensor loss;  // [n] float32, 0 where masked
  at::Tensor grad;  // [n] d loss / d log_prob, the same
  at::Tensor sums;  // [kSurrogateSums] float64, for read_sums()
};

inline constexpr int64_t kSurrogateSums = 15;
// The sums of `live` tokens, copied to host memory.
SurrogateSums read_sums(std::span<const double> sums, int64_t live);

using DeviceSurrogateFunction = DeviceSurrogateOutput (*)(const DeviceSurrogateInput&, const ParameterValues&);

struct DeviceSurrogateEntry {
  std::string_view name;
  DeviceSurrogateFunction function;
};

// One for every entry of surrogate_table(), by its name.
std::span<const DeviceSurrogateEntry> device_surrogate_table();
// nullptr when the surrogate of that name has no device form.
const DeviceSurrogateEntry* find_device_surrogate(std::string_view name);

}  // namespace troupe
