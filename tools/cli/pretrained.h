#pragma once
// The settings that a run takes from the weights that model.path names. Plain functions; any thread.

#include "actors/config/run_config.h"

namespace troupe {

// Fills them: of a token run those that the folder of a pre-trained model gives; of a token_transformer with adapters
// model.path as the folder of one checkpoint, and model.decoder {} = that of its run. Throws ConfigError, which begins
// with the setting, for a path that names no such weights, and for a run whose weights had another meaning.
void use_pretrained(RunConfig& config);

}  // namespace troupe
