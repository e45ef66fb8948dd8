#pragma once
// EncoderKind: one way to turn an observation into features. Every kind is a pair of files like conv.h and conv.cpp and
// a line in encoder_table.cpp. No LibTorch. Plain values; any thread.

#include <span>
#include <string_view>

#include "envs/env.h"
#include "models/networks/layer_stack.h"
#include "models/networks/object_setting.h"
#include "models/networks/strict_object.h"

namespace troupe {

struct EncoderKind {
  std::string_view name;
  // Reads the observation as numbers: float32, flattened, bytes divided by 255, normalised if the config says so.
  // Otherwise its layers get the observation as the environment gives it.
  bool numbers = false;
  // The keys that `build` reads, each of them for every observation that it accepts. They live as long as the program.
  std::span<const ObjectSetting> settings;
  // Reads the encoder's settings and adds its layers. Throws ConfigError naming the setting that does not fit the
  // observation.
  void (*build)(const ArraySpec& observation, StrictObject& settings, LayerStack& layers) = nullptr;
};

}  // namespace troupe
