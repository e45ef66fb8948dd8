#pragma once
// The settings of a model and of its training. Plain values; any thread.

#include <cstdint>

#include "algorithms/choice/algorithm_config.h"
#include "models/learning/reference_config.h"
#include "models/learning/trainer_config.h"
#include "models/networks/model_config.h"

namespace troupe {

struct LearnerConfig {
  uint64_t seed = 1;
  int64_t rollout_length = 32;  // T
  ModelConfig model;
  AlgorithmConfig algorithm;
  TrainerConfig trainer;
  int64_t max_policy_lag = 0;  // of the samples
  ReferenceConfig reference;   // of token runs
};

}  // namespace troupe
