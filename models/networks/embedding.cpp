#include "models/networks/embedding.h"

#include <string>

#include "envs/observation_called.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr int64_t kMostValues = 10'000'000;
constexpr ObjectSetting kValues =
    required_key(integer_key("values", 1, kMostValues, "how many values there are, from 0"));
constexpr ObjectSetting kSize =
    defaulted_key("16", integer_key("size", 1, kMostUnits, "length of the vector of a value"));
constexpr ObjectSetting kEmbeddingSettings[] = {kValues, kSize};

void build_embedding(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  if (is_floating_point(observation.dtype))
    throw ConfigError(settings.path_of("kind") + ": \"embedding\" needs integers, but " +
                      observation_called(observation.name) + " is " + std::string(name_of(observation.dtype)) +
                      "; use \"mlp\"");
  const int64_t values = settings.integer(kValues);
  layers.embedding(values, settings.integer(kSize));
}

}  // namespace

EncoderKind embedding_encoder() {
  return {.name = "embedding", .settings = kEmbeddingSettings, .build = build_embedding};
}

}  // namespace troupe
