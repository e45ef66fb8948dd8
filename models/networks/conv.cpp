#include "models/networks/conv.h"

#include <algorithm>
#include <string>

#include "envs/observation_called.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr int64_t kMostPixels = 1024;

constexpr ObjectSetting kChannels = required_key(integer_key("channels", 1, kMostUnits, "output channels"));
constexpr ObjectSetting kKernel = required_key(integer_key("kernel", 1, kMostPixels, "height and width of the kernel"));
constexpr ObjectSetting kStride = defaulted_key("1", integer_key("stride", 1, kMostPixels, "step of the kernel"));
constexpr ObjectSetting kPadding =
    defaulted_key("0", integer_key("padding", 0, kMostPixels, "zeros added at each side"));
constexpr ObjectSetting kLayerSettings[] = {kChannels, kKernel, kStride, kPadding};

constexpr ObjectSetting kLayers = {
    .setting =
        object_key("layers", "the convolutions; by default as many as it takes to shrink the image to at most 4 x 4"),
    .members = [] { return std::span<const ObjectSetting>(kLayerSettings); },
    .is_array = true};
constexpr ObjectSetting kConvHidden =
    defaulted_key("[128]", integers_key("hidden", 1, kMostUnits, "units of the fully connected layers"));
constexpr ObjectSetting kConvSettings[] = {kImageOrder, kLayers, kConvHidden};

void add_default_layers(LayerStack& layers, const std::string& path) {
  constexpr ConvSettings kHalving = {.channels = 32, .kernel = 3, .stride = 2, .padding = 1};
  constexpr int64_t kSmall = 4;
  do {
    layers.conv(kHalving, path);
  } while (std::max(layers.shape()[1], layers.shape()[2]) > kSmall);
}

void add_given_layers(StrictObject& settings, LayerStack& layers) {
  for (StrictObject& given : settings.objects(kLayers)) {
    ConvSettings conv;
    conv.channels = given.integer(kChannels);
    conv.kernel = given.integer(kKernel);
    conv.stride = given.integer(kStride);
    conv.padding = given.integer(kPadding);
    given.finish();
    layers.conv(conv, given.path());
  }
}

void build_conv(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  add_image(observation, settings, layers);
  if (settings.has(kLayers))
    add_given_layers(settings, layers);
  else
    add_default_layers(layers, settings.path());
  for (const int64_t units : settings.integers(kConvHidden)) layers.linear(units);
}

}  // namespace

void add_image(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) {
  const Shape& shape = observation.shape;
  if (shape.rank() != 2 && shape.rank() != 3)
    throw ConfigError(settings.path_of("kind") + ": needs an image, but " + observation_called(observation.name) +
                      " is " + shape.text() + "; use \"mlp\"");
  if (observation.dtype != DType::u8 && !is_floating_point(observation.dtype))
    throw ConfigError(settings.path_of("kind") + ": needs an image of uint8 or floating-point numbers, but " +
                      observation_called(observation.name) + " is " + std::string(name_of(observation.dtype)) +
                      "; use \"mlp\" or \"embedding\"");
  const std::string order = settings.choice(kImageOrder);
  const bool last = order == "auto" ? shape.rank() == 3 && shape[2] < shape[0] : order == "hwc";
  layers.image(last && shape.rank() == 3);
}

EncoderKind conv_encoder() { return {.name = "conv", .settings = kConvSettings, .build = build_conv}; }

}  // namespace troupe
