#pragma once
// Which integers a model's embeddings accept. No LibTorch. A plain function; any thread.

#include <vector>

#include "envs/env.h"
#include "envs/observation_ranges.h"
#include "models/networks/model_config.h"

namespace troupe {

// One range for each observation that an embedding reads and that could hold an integer outside it. For
// with_ranges(): looking up such an integer would give NaN. Throws ConfigError when the model does not fit the
// environment.
std::vector<ObservationRange> embedding_ranges(const ModelConfig& config, const EnvSpec& env);

}  // namespace troupe
