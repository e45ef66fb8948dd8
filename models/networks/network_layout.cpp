#include "models/networks/network_layout.h"

#include "models/networks/network_kinds.h"
#include "runtime/base/errors.h"

namespace troupe {

NetworkLayout network_layout(const ModelConfig& config, const EnvSpec& env) {
  for (const NetworkKind& kind : kNetworkKinds)
    if (kind.name == config.kind) return kind.layout(config, env);
  throw InvariantError("there is no model.kind " + config.kind);
}

LinearTensors add_linear(NetworkLayout& layout, const std::string& name, int64_t outputs, int64_t inputs,
                         TensorGroup group, double gain) {
  LinearTensors names = {name + ".weight", name + ".bias"};
  layout.tensors.push_back({names.bias, {outputs}, group});
  layout.tensors.push_back({names.weight, {outputs, inputs}, group, gain});
  layout.units += outputs;
  return names;
}

}  // namespace troupe
