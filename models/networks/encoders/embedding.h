#pragma once
// The encoder "embedding": a learnt vector for every value of an integer. An observation of n integers becomes n
// vectors side by side. Settings: "values", how many values there are, counted from 0; "size" of a vector. A plain
// function; any thread.

#include "envs/env.h"
#include "models/networks/encoders/layer_stack.h"
#include "models/networks/strict_object.h"

namespace troupe {

// Throws ConfigError when the observation is not made of integers.
void build_embedding(const ArraySpec& observation, StrictObject& settings, LayerStack& layers);

}  // namespace troupe
