#pragma once
// The encoder "mlp": the observation's numbers through fully connected layers. Settings: "hidden". A plain function;
// any thread.

#include "envs/env.h"
#include "models/networks/encoders/layer_stack.h"
#include "models/networks/strict_object.h"

namespace troupe {

// Without "hidden": one layer of 64 units. [] hands the numbers on as they are.
void build_flat_mlp(const ArraySpec& observation, StrictObject& settings, LayerStack& layers);

}  // namespace troupe
