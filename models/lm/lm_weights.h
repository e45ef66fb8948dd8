#pragma once
// The weights of a language model: its signature, its first values, and its tensors as the decoder wants them. Plain
// functions; any thread.

#include <cstdint>
#include <span>

#include "models/lm/decoder_tensors.h"
#include "models/lm/lm_shape.h"
#include "models/weights/weight_block.h"

namespace troupe {

// The parameters under the names of Hugging Face's checkpoints, all in the group `policy`.
Signature lm_signature(const LmShape& shape);

// Random first values: norms 1, biases 0, matrices normal with a standard deviation of 0.02. Each tensor depends on the
// seed and its name alone.
void draw_lm_weights(const LmShape& shape, uint64_t seed, WeightBlock& weights);

DecoderWeights decoder_weights(const LmShape& shape, const WeightBlock& weights);

// Views of `gradients`, which is laid out as the block's trained parameters.
DecoderGradients decoder_gradients(const LmShape& shape, const WeightBlock& weights, std::span<float> gradients);

}  // namespace troupe
