#include "models/networks/nature.h"

#include <algorithm>
#include <string>

#include "envs/observation_called.h"
#include "models/networks/conv.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr ObjectSetting kNatureSettings[] = {kImageOrder};

void build_nature(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  constexpr int64_t kLeastPixels = 36;  // (36 - 8) / 4 + 1 = 8, (8 - 4) / 2 + 1 = 3, 3 - 3 + 1 = 1
  constexpr int64_t kUnits = 512;
  add_image(observation, settings, layers);
  const int64_t height = layers.shape()[1], width = layers.shape()[2];
  if (std::min(height, width) < kLeastPixels)
    throw ConfigError(settings.path_of("kind") + ": \"nature\" needs at least 36 x 36 pixels, but " +
                      observation_called(observation.name) + " has " + std::to_string(height) + " x " +
                      std::to_string(width) + "; use \"conv\"");
  layers.conv({.channels = 32, .kernel = 8, .stride = 4}, settings.path());
  layers.conv({.channels = 64, .kernel = 4, .stride = 2}, settings.path());
  layers.conv({.channels = 64, .kernel = 3, .stride = 1}, settings.path());
  layers.linear(kUnits);
}

}  // namespace

EncoderKind nature_encoder() { return {.name = "nature", .settings = kNatureSettings, .build = build_nature}; }

}  // namespace troupe
