#include "models/networks/network_layout.h"

#include <string_view>

#include "models/networks/mlp_layout.h"
#include "models/networks/net_layout.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

struct LayoutOfKind {
  std::string_view kind;
  NetworkLayout (*layout)(const ModelConfig&, const EnvSpec&);
};

constexpr LayoutOfKind kLayouts[] = {
    {"mlp", mlp_layout},
    {"net", net_layout},
};

}  // namespace

NetworkLayout network_layout(const ModelConfig& config, const EnvSpec& env) {
  std::string known;
  for (const LayoutOfKind& entry : kLayouts) {
    if (entry.kind == config.kind) return entry.layout(config, env);
    known += (known.empty() ? "" : ", ") + std::string(entry.kind);
  }
  throw ConfigError("model.kind: \"" + config.kind + "\", expected one of: " + known);
}

void add_linear(NetworkLayout& layout, const std::string& name, int64_t outputs, int64_t inputs, TensorGroup group,
                double gain) {
  layout.tensors.push_back({name + ".bias", {outputs}, group});
  layout.tensors.push_back({name + ".weight", {outputs, inputs}, group, gain});
  layout.units += outputs;
}

}  // namespace troupe
