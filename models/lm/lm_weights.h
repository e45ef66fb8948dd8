#pragma once
// The weights of a language model: its signature, its first values, and its tensors as the decoder wants them. Plain
// functions; any thread.

#include <cstdint>
#include <span>

#include "models/decoder/decoder_tensors.h"
#include "models/lm/lm_model.h"

namespace troupe {

// The tensors that the learner trains and sends, all in the group `policy`: the parameters under the names of Hugging
// Face's checkpoints, or with LoRA the adapters and an empty buffer "frozen.HASH", so that weights fit only a model
// with the same frozen weights.
Signature lm_signature(const LmModel& model);

// Random first values: norms 1, biases 0, matrices normal with a standard deviation of 0.02. Each tensor depends on the
// seed and its name alone.
void draw_lm_weights(const LmShape& shape, uint64_t seed, WeightBlock& weights);
// The first weights of a run: those of model.path, random ones, or adapters that change nothing (B = 0, and A uniform
// within 1 / sqrt(inputs) of 0, as in PEFT). Throws ConfigError for files that cannot be read.
void begin_lm_weights(const LmModel& model, uint64_t seed, WeightBlock& weights);

DecoderWeights decoder_weights(const LmModel& model, const WeightBlock& weights);

// Views of `gradients`, which is laid out as the block's trained parameters. Frozen weights have none.
DecoderGradients decoder_gradients(const LmModel& model, const WeightBlock& weights, std::span<float> gradients);

}  // namespace troupe
