#include "models/networks/encoders/embedding.h"

#include <string>

#include "runtime/base/errors.h"

namespace troupe {

void build_embedding(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  constexpr int64_t kMostValues = 10'000'000, kSize = 16;
  if (is_floating_point(observation.dtype))
    throw ConfigError(settings.path_of("kind") + ": \"embedding\" needs integers, but observation " + observation.name +
                      " is " + std::string(name_of(observation.dtype)) + "; use \"mlp\"");
  const int64_t values = settings.integer("values", {}, 1, kMostValues);
  layers.embedding(values, settings.integer("size", kSize, 1, kMostUnits));
}

}  // namespace troupe
