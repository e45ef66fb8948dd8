#pragma once
// The memory of a pass of training through a decoder. Pure functions; any thread.

#include <cstdint>

#include "models/decoder/lm_shape.h"

namespace troupe {

// Bytes for each token of a forward and backward pass: what is kept of every layer (or, with `recompute`, the inputs of
// the layers and all of one layer), keys and values, gradients, and the hidden rows. Not what depends on the vocabulary
// alone.
int64_t activation_bytes(const LmShape& shape, bool recompute);

// Bytes for each token of keys and values, in all layers.
int64_t kv_bytes(const LmShape& shape);

}  // namespace troupe
