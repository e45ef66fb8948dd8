#pragma once
// The weights of a token_transformer without adapters that decides as one with adapters does. No LibTorch. A plain
// function; any thread.

#include <map>
#include <string>

#include "envs/env.h"
#include "models/networks/model_config.h"
#include "runtime/base/array.h"

namespace troupe {

// Those of a model with model.lora, `saved`, with the decoder of its base, in which W + (alpha / rank) B A stands for
// each W that has an adapter. They fit the same model without model.lora and model.path. Throws ConfigError if the base
// cannot be read.
std::map<std::string, Array> merged_token_transformer(const ModelConfig& config, const EnvSpec& env,
                                                      const std::map<std::string, Array>& saved);

}  // namespace troupe
