#pragma once
// The encoders there are: each describes the layers that turn one observation into features. A new one is a pair of
// files like conv.h and conv.cpp and a line in encoder_table.cpp. No LibTorch. Any thread.

#include <string>
#include <string_view>
#include <vector>

#include "envs/env.h"
#include "models/networks/encoders/layer_stack.h"
#include "models/networks/strict_object.h"

namespace troupe {

struct EncoderKind {
  std::string_view name;
  // Reads the observation as numbers: float32, flattened, bytes divided by 255, normalised if the config says so.
  // Otherwise its layers get the observation as the environment gives it.
  bool numbers = false;
  // Reads the encoder's settings and adds its layers. Throws ConfigError naming the setting that does not fit the
  // observation.
  void (*build)(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) = nullptr;
};

std::vector<std::string_view> encoder_names();
// The kind of that name, which must be one of encoder_names().
const EncoderKind& find_encoder(std::string_view name);
// For an observation that the run file says nothing about: "conv" for images, uint8 of rank 3, "mlp" for everything
// else.
std::string_view default_encoder(const ArraySpec& observation);

}  // namespace troupe
