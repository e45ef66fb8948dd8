#include <string_view>

#include "models/networks/mlp.h"
#include "models/networks/network.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

template <class T>
std::unique_ptr<Network> make(const ModelConfig& config, const DeviceWeights& weights) {
  return std::make_unique<T>(config, weights);
}

struct NetworkOfKind {
  std::string_view kind;
  std::unique_ptr<Network> (*make)(const ModelConfig&, const DeviceWeights&);
};

constexpr NetworkOfKind kNetworks[] = {
    {"mlp", make<Mlp>},
};

}  // namespace

// The layout of the same kind (network_layout()) has refused unknown ones.
std::unique_ptr<Network> make_network(const ModelConfig& config, const DeviceWeights& weights) {
  for (const NetworkOfKind& entry : kNetworks)
    if (entry.kind == config.kind) return entry.make(config, weights);
  throw InvariantError("model.kind " + config.kind + " has a layout but no network");
}

}  // namespace troupe
