#pragma once
// The memory of a decoder's weights and passes. Pure functions; any thread.

#include <cstdint>

#include "models/decoder/lm_shape.h"

namespace troupe {

// Bytes for each token of a forward and backward pass: what is kept of every layer (or, with `recompute`, the inputs of
// the layers and all of one layer), keys and values, gradients, and the hidden rows. Not what depends on the vocabulary
// alone.
int64_t activation_bytes(const LmShape& shape, bool recompute);

// Bytes for each token of a pass without gradients, besides keys and values: one layer, and the hidden rows.
int64_t forward_bytes(const LmShape& shape);

// Bytes for each token of keys and values, in all layers.
int64_t kv_bytes(const LmShape& shape);

// A PackedDecoder with what keep_rest() copies.
int64_t packed_bytes(const LmShape& shape);
// What a decoder without one has packed at a time: the output layer, and the largest product of a layer.
int64_t packed_in_pass_bytes(const LmShape& shape);

}  // namespace troupe
