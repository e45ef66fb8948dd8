#pragma once
// The layout of an MLP policy with a value function.
//
//   separate trunks: policy.<i>.weight|bias, value.<i>.weight|bias;  shared: trunk.<i>.weight|bias
//   heads:           policy.head.weight|bias [P, H], value.head.weight|bias [1, H]

#include "models/networks/network_layout.h"

namespace troupe {

// All observations side by side are its one input. First values: orthogonal weights (Saxe et al. 2014,
// arXiv:1312.6120), gain sqrt(2) in the trunks, policy_gain and 1 in the heads; biases 0.
NetworkLayout mlp_layout(const ModelConfig& config, const EnvSpec& env);

}  // namespace troupe
