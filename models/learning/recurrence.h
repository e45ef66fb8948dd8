#pragma once
// What a run's settings say about recurrent state: its size, and the sequences that training cuts columns into. No
// LibTorch. Plain functions; any thread.

#include <cstdint>

#include "envs/env.h"
#include "models/learning/learner_config.h"

namespace troupe {

struct Recurrence {
  int64_t state_size = 0;  // S: numbers of state per row; 0 = the model has none, and the rest is 0 too
  int64_t sequence = 0;    // L: steps of a sequence; rollout.length is a multiple of it
  int64_t burn_in = 0;     // steps at the beginning of a sequence that give it a state but are not trained on
};

// Throws ConfigError when model.sequence or model.burn_in do not fit the run, or have no effect because nothing is
// recurrent.
Recurrence recurrence_of(const LearnerConfig& config, const EnvSpec& env);

}  // namespace troupe
