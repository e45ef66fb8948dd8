#include "models/networks/network_layout.h"

#include "models/networks/network_kinds.h"
#include "runtime/base/errors.h"

namespace troupe {

NetworkLayout network_layout(const ModelConfig& config, const EnvSpec& env) {
  for (const NetworkKind& kind : kNetworkKinds)
    if (kind.name == config.kind) return kind.layout(config, env);
  throw InvariantError("there is no model.kind " + config.kind);
}

void add_linear(NetworkLayout& layout, const std::string& name, int64_t outputs, int64_t inputs, TensorGroup group,
                double gain) {
  layout.tensors.push_back({name + ".bias", {outputs}, group});
  layout.tensors.push_back({name + ".weight", {outputs, inputs}, group, gain});
  layout.units += outputs;
}

}  // namespace troupe
