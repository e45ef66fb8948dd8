#include "models/networks/embedding_ranges.h"

#include <algorithm>
#include <limits>
#include <string>

#include "models/networks/net_layout.h"

namespace troupe {

namespace {

// The number of rows of an embedding's table.
int64_t values_of(const NetLayer& embedding, const NetworkLayout& layout) {
  const std::string table = embedding.name + ".weight";
  const auto found =
      std::ranges::find_if(layout.tensors, [&](const NetworkTensor& tensor) { return tensor.name == table; });
  TROUPE_CHECK(found != layout.tensors.end(), table);
  return found->shape[0];
}

}  // namespace

std::vector<ObservationRange> embedding_ranges(const ModelConfig& config, const EnvSpec& env) {
  std::vector<ObservationRange> ranges;
  if (config.kind != "net") return ranges;
  const NetPlan plan = net_plan(config, env);
  for (size_t i = 0; i < plan.encoders.size(); ++i) {
    if (plan.encoders[i].empty() || plan.encoders[i].front().kind != NetLayer::Kind::embedding) continue;
    const size_t observation = plan.layout.inputs[i].observations.front();
    const int64_t values = values_of(plan.encoders[i].front(), plan.layout);
    const bool holds_all =
        env.observations[observation].dtype == DType::u8 && values > std::numeric_limits<uint8_t>::max();
    if (!holds_all)
      ranges.push_back(
          {observation, values, "the embedding in model.net.encoders has " + std::to_string(values) + " values"});
  }
  return ranges;
}

}  // namespace troupe
