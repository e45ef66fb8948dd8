#include <algorithm>
#include <string_view>

#include "models/networks/network_kinds.h"
#include "models/torch/mlp.h"
#include "models/torch/net.h"
#include "models/torch/network.h"
#include "models/torch/token_transformer.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

std::unique_ptr<Network> make_mlp(const ModelConfig& config, const EnvSpec& /*env*/, const DeviceWeights& weights) {
  return std::make_unique<Mlp>(config, weights);
}

std::unique_ptr<Network> make_net(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights) {
  return std::make_unique<Net>(net_plan(config, env), config, weights);
}

std::unique_ptr<Network> make_token_transformer(const ModelConfig& config, const EnvSpec& env,
                                                const DeviceWeights& weights) {
  return std::make_unique<TokenTransformer>(config, env, weights);
}

struct ComputedKind {
  std::string_view name;
  std::unique_ptr<Network> (*make)(const ModelConfig&, const EnvSpec&, const DeviceWeights&);
};

constexpr ComputedKind kComputed[] = {
    {"mlp", make_mlp},
    {"net", make_net},
    {kTokenTransformerKind, make_token_transformer},
};
static_assert(std::ranges::equal(kComputed, kNetworkKinds, {}, &ComputedKind::name, &NetworkKind::name),
              "the kinds of networks here are those of network_kinds.h, in its order");

}  // namespace

NetworkDefinition define_network(const ModelConfig& config, const EnvSpec& env) {
  return {network_layout(config, env),
          [config, env](const DeviceWeights& weights) { return make_network(config, env, weights); }};
}

std::unique_ptr<Network> make_network(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights) {
  for (const ComputedKind& kind : kComputed)
    if (kind.name == config.kind) return kind.make(config, env, weights);
  throw InvariantError("there is no model.kind " + config.kind);
}

}  // namespace troupe
