#pragma once
// Rules that relate a config file to the environment it names. Needs no LibTorch, so every program can refuse a wrong
// config file before anything starts. Pure functions; any thread.

#include <optional>
#include <string>

#include "envs/env.h"
#include "models/learning/learner_config.h"
#include "models/learning/recurrence.h"

namespace troupe {

// Throws ConfigError when no model can be made because the settings do not fit the environment.
void check_fit(const LearnerConfig& config, const EnvSpec& env);

// What is wrong when the first policy draws almost no action inside the bounds of some component of continuous actions:
// nearly all are clipped to the same bound then, so that there is nothing to learn from. Nothing otherwise.
std::optional<std::string> bounds_out_of_reach(const ModelConfig& model, const EnvSpec& env);

// Throws ConfigError when replay would draw single steps (`replay.draw`) where whole columns of rollouts are needed.
void check_draw(const std::string& draw, const AlgorithmConfig& algorithm, const Recurrence& recurrence);

// Throws ConfigError when a setting has no effect with this environment and is not at its default.
void check_unused_settings(const ModelConfig& model, const AlgorithmConfig& algorithm, const EnvSpec& env);

}  // namespace troupe
