#pragma once
// Actions in [-1, 1] for any environment with continuous actions (env.normalize_actions). Any thread.

#include <memory>

#include "envs/env.h"

namespace troupe {

// The same environment with the bounds -1 and 1: an action is clipped to them and then mapped linearly to the bounds of
// `env`. Throws ConfigError when its actions are not continuous.
std::unique_ptr<Env> with_normalized_actions(std::unique_ptr<Env> env);

}  // namespace troupe
