#pragma once
// The tensors of an MLP policy with a value function: their names, shapes and first values. No tensor library, so that a forward
// without LibTorch can share them.
//
//   separate trunks: policy.<i>.weight|bias, value.<i>.weight|bias;  shared: trunk.<i>.weight|bias
//   heads:           policy.head.weight|bias [P, H], value.head.weight|bias [1, H]
//   continuous:      policy.log_std [D], a parameter, or a buffer when it follows a schedule
//   normalisers:     observation_normalizer.count|mean|m2, return_normalizer.count|mean|m2 (buffers, float64)
// Sorted by name, so the tensors of the value function ("value.*") are the last parameters.

#include <cstdint>
#include <string>

#include "algorithms/common/running_normalizer.h"
#include "models/heads/heads.h"
#include "models/weights/weight_block.h"
#include "runtime/config/run_config.h"

namespace troupe {

Signature mlp_signature(const ModelConfig& config, int64_t features, const Head& head);

// First values: orthogonal weights (Saxe et al. 2014), gain sqrt(2) in the trunks, policy_gain and 1 in the heads; biases 0.
// Every tensor draws from its own stream of `seed`.
WeightBlock initial_mlp(const ModelConfig& config, uint64_t seed, int64_t features, const Head& head);

// Whether a parameter belongs to the value function (the group with value_lr) or to the policy. A shared trunk is the policy's.
bool is_value_parameter(const std::string& name);

// The normaliser that the buffers `prefix`.count|mean|m2 hold, and back.
RunningNormalizer read_normalizer(const WeightBlock& weights, const std::string& prefix);
void write_normalizer(const RunningNormalizer& normalizer, const std::string& prefix, WeightBlock& weights);

// Throws InvariantError when the normalisers' buffers are no possible state.
void check_buffers(const WeightBlock& weights);

// Units of the value head: V = head * scale + shift, in reward units. {1, 0} without a return normaliser.
struct ValueUnits {
  float scale = 1.0f;
  float shift = 0.0f;
};
ValueUnits value_units(const WeightBlock& weights);

inline constexpr const char* kObservationNormalizer = "observation_normalizer";
inline constexpr const char* kReturnNormalizer = "return_normalizer";
inline constexpr const char* kLogStd = "policy.log_std";

}  // namespace troupe
