#pragma once
// The layout of an MLP policy with a value function.
//
//   separate trunks: policy.<i>.weight|bias, value.<i>.weight|bias;  shared: trunk.<i>.weight|bias
//   heads:           policy.head.weight|bias [P, H], value.head.weight|bias [1, H]

#include <cstdint>
#include <string>

#include "models/networks/network_layout.h"

namespace troupe {

// All observations side by side are its one input. First values: orthogonal weights (Saxe et al. 2014,
// arXiv:1312.6120), gain sqrt(2) in the trunks, policy_gain and 1 in the heads; biases 0.
NetworkLayout mlp_layout(const ModelConfig& config, const EnvSpec& env);

// Makes all observations side by side an input. Returns its numbers per sample.
int64_t add_all_observations(NetworkLayout& layout, const EnvSpec& env);
// Adds the layers `prefix`.<i> with the sizes of model.hidden. Returns the outputs of the last one.
int64_t add_mlp_trunk(NetworkLayout& layout, const std::string& prefix, const ModelConfig& config, int64_t features,
                      TensorGroup group);

}  // namespace troupe
