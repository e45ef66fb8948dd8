#include <string_view>

#include "models/networks/mlp.h"
#include "models/networks/net.h"
#include "models/networks/network.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

std::unique_ptr<Network> make_mlp(const ModelConfig& config, const EnvSpec& /*env*/, const DeviceWeights& weights) {
  return std::make_unique<Mlp>(config, weights);
}

std::unique_ptr<Network> make_net(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights) {
  return std::make_unique<Net>(net_plan(config, env), config, weights);
}

struct NetworkOfKind {
  std::string_view kind;
  std::unique_ptr<Network> (*make)(const ModelConfig&, const EnvSpec&, const DeviceWeights&);
};

constexpr NetworkOfKind kNetworks[] = {
    {"mlp", make_mlp},
    {"net", make_net},
};

}  // namespace

// The layout of the same kind (network_layout()) has refused unknown ones.
std::unique_ptr<Network> make_network(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights) {
  for (const NetworkOfKind& entry : kNetworks)
    if (entry.kind == config.kind) return entry.make(config, env, weights);
  throw InvariantError("model.kind " + config.kind + " has a layout but no network");
}

}  // namespace troupe
