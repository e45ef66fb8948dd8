#pragma once
// The encoder "conv": convolutions, then fully connected layers. Plain functions; any thread.

#include "models/networks/encoder.h"

namespace troupe {

// Without "layers": convolutions of 32 channels with kernel 3, stride 2 and padding 1, as many as bring the image to at
// most 4 x 4, and at least one.
EncoderKind conv_encoder();

// The key "order" of every encoder of images: "hwc" says that the last dimension counts the channels, "chw" the first,
// "auto" the smaller of the two, or the first when they are equal.
inline constexpr ObjectSetting kImageOrder = defaulted_key(
    R"("auto")", choice_key("order", kWords<"auto", "chw", "hwc">, "where the channels of the image are"));

// The image that an encoder of images begins with; reads kImageOrder. Throws ConfigError when the observation is not of
// rank 2 or 3, or of integers other than uint8.
void add_image(const ArraySpec& observation, StrictObject& settings, LayerStack& layers);

}  // namespace troupe
