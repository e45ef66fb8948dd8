#pragma once
// The encoders there are, and their keys in model.net. No LibTorch. Any thread.

#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "envs/env.h"
#include "models/networks/encoder.h"
#include "models/networks/object_setting.h"

namespace troupe {

// All of them. A new kind is a line in encoder_table.cpp.
std::span<const EncoderKind> encoder_kinds();
std::span<const std::string_view> encoder_names();
// The kind of that name, which must be one of encoder_names().
const EncoderKind& find_encoder(std::string_view name);
// For an observation that the config file does not mention: "conv" for images, uint8 of rank 3, "mlp" for everything
// else.
std::string_view default_encoder(const ArraySpec& observation);

// The key that names the kind. Its default depends on the observation: default_encoder().
const ObjectSetting& encoder_kind_key();
// JSON schema of an encoder's object, with the keys of all kinds. Their descriptions begin with the kinds that have
// them.
nlohmann::ordered_json encoder_schema();

}  // namespace troupe
