#pragma once
// The layouts of the networks, by model.kind. Their arithmetic is in the table of make_network.cpp. No LibTorch.
// Constants; any thread.

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "envs/env.h"
#include "models/networks/mlp_layout.h"
#include "models/networks/model_config.h"
#include "models/networks/net_layout.h"
#include "models/networks/network_layout.h"
#include "models/networks/token_transformer_layout.h"

namespace troupe {

struct NetworkKind {
  std::string_view name;
  NetworkLayout (*layout)(const ModelConfig&, const EnvSpec&);
};

inline constexpr NetworkKind kNetworkKinds[] = {
    {"mlp", mlp_layout},
    {"net", net_layout},
    {kTokenTransformerKind, token_transformer_layout},
};

// Their names, for the setting.
inline constexpr auto kNetworkNames = [] {
  std::array<std::string_view, std::size(kNetworkKinds)> names;
  std::ranges::transform(kNetworkKinds, names.begin(), &NetworkKind::name);
  return names;
}();

}  // namespace troupe
