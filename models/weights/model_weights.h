#pragma once
// The tensors of a model: those of its network, and those that every model has. No tensor library. Plain functions; any
// thread.
//
//   the network:  see models/networks/network_layout.h
//   continuous:   policy.log_std [D], a parameter of the policy, or a buffer when it follows a schedule
//   normalisers:  observation_normalizer.count|mean|m2, return_normalizer.count|mean|m2 (buffers, float64)

#include <cstdint>
#include <string>

#include "algorithms/common/running_normalizer.h"
#include "envs/env.h"
#include "models/networks/model_config.h"
#include "models/networks/network_layout.h"
#include "models/weights/weight_block.h"

namespace troupe {

// Throws ConfigError when the model does not fit the environment.
Signature model_signature(const ModelConfig& config, const EnvSpec& env);
// The same where the network's layout, that of `config`, is known.
Signature model_signature(const NetworkLayout& layout, const ModelConfig& config, const EnvSpec& env);

// The first values, as the layout says. Every tensor draws from its own stream of `seed`. Takes long for large
// matrices: making n orthogonal vectors of n numbers takes time proportional to n^3.
WeightBlock initial_weights(const ModelConfig& config, const EnvSpec& env, uint64_t seed);
WeightBlock initial_weights(const NetworkLayout& layout, const ModelConfig& config, const EnvSpec& env, uint64_t seed);
// The same into weights of that layout, whose buffers other than a scheduled log_std stay as they are.
void draw_weights(const NetworkLayout& layout, const ModelConfig& config, uint64_t seed, WeightBlock& weights);

// Whether the weights have a normaliser, which the buffers `prefix`.count|mean|m2 hold.
bool has_normalizer(const WeightBlock& weights, const std::string& prefix);
// The normaliser that the buffers `prefix`.count|mean|m2 hold, and back.
RunningNormalizer read_normalizer(const WeightBlock& weights, const std::string& prefix);
void write_normalizer(const RunningNormalizer& normalizer, const std::string& prefix, WeightBlock& weights);

// Throws InvariantError when the normalisers' buffers are not a possible state.
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
