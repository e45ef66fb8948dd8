#pragma once
// The encoder "conv": convolutions, then fully connected layers. Settings: "layers", each with "channels", "kernel",
// "stride" and "padding"; "hidden"; "order" of the image. Plain functions; any thread.

#include "envs/env.h"
#include "models/networks/encoders/layer_stack.h"
#include "models/networks/strict_object.h"

namespace troupe {

// Without "layers": convolutions of 32 channels with kernel 3, stride 2 and padding 1, as many as bring the image to at
// most 4 x 4, and at least one. Without "hidden": one layer of 128 units.
void build_conv(const ArraySpec& observation, StrictObject& settings, LayerStack& layers);

// The image that an encoder of images begins with. "order" says which extent counts the channels: "hwc" the last, "chw"
// the first, "auto" the smaller of the two, or the first when they are equal. Throws ConfigError when the observation
// is not of rank 2 or 3.
void add_image(const ArraySpec& observation, StrictObject& settings, LayerStack& layers);

}  // namespace troupe
