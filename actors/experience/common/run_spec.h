#pragma once
// RunSpec: what a run is, as far as it decides the shape of its experience. Constant once made.

#include <memory>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/learning/recurrence.h"

namespace troupe {

struct TokenRun;

struct RunSpec {
  RunConfig config;
  std::shared_ptr<const TokenRun> tokens;  // of a token run; null = a run on an environment, which has all that follows
  EnvSpec spec;
  Recurrence recurrence;
};

}  // namespace troupe
