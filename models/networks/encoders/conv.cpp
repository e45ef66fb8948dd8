#include "models/networks/encoders/conv.h"

#include <algorithm>
#include <string>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr int64_t kMostPixels = 1024;

void add_default_layers(LayerStack& layers, const std::string& path) {
  constexpr ConvSettings kHalving = {.channels = 32, .kernel = 3, .stride = 2, .padding = 1};
  constexpr int64_t kSmall = 4;
  do {
    layers.conv(kHalving, path);
  } while (std::max(layers.shape()[1], layers.shape()[2]) > kSmall);
}

void add_given_layers(StrictObject& settings, LayerStack& layers) {
  for (StrictObject& given : settings.objects("layers")) {
    ConvSettings conv;
    conv.channels = given.integer("channels", {}, 1, kMostUnits);
    conv.kernel = given.integer("kernel", {}, 1, kMostPixels);
    conv.stride = given.integer("stride", 1, 1, kMostPixels);
    conv.padding = given.integer("padding", 0, 0, kMostPixels);
    given.finish();
    layers.conv(conv, given.path());
  }
}

}  // namespace

void add_image(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  const Shape& shape = observation.shape;
  if (shape.rank() != 2 && shape.rank() != 3)
    throw ConfigError(settings.path_of("kind") + ": needs an image, but observation " + observation.name + " is " +
                      shape.text() + "; use \"mlp\"");
  constexpr std::string_view kOrders[] = {"auto", "chw", "hwc"};
  const std::string order = settings.choice("order", "auto", kOrders);
  const bool last = order == "auto" ? shape.rank() == 3 && shape[2] < shape[0] : order == "hwc";
  layers.image(last && shape.rank() == 3);
}

void build_conv(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  add_image(observation, settings, layers);
  if (settings.has("layers"))
    add_given_layers(settings, layers);
  else
    add_default_layers(layers, settings.path());
  for (const int64_t units : settings.integers("hidden", {128}, 1, kMostUnits)) layers.linear(units);
}

}  // namespace troupe
