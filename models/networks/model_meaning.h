#pragma once
// Whether the same tensors mean the same in two models: with other settings or observations they compute something
// else, although all names and shapes agree. No LibTorch. Plain functions; any thread.

#include "envs/env.h"
#include "models/networks/model_config.h"

namespace troupe {

// Throws ConfigError that names the first setting of section model with which the tensors of `source` compute something
// else than with that of `now`, with both values. Settings of training alone, first values and schedules may differ.
// The models have the same tensors and are for the observations of `env`.
void require_same_meaning(const ModelConfig& source, const ModelConfig& now, const EnvSpec& env);

// Throws ConfigError with the observations of both unless they are the same, in the same order, by name, dtype and
// shape.
void require_same_observations(const EnvSpec& source, const EnvSpec& now);

}  // namespace troupe
