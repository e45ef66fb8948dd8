#pragma once
// The weights of a language model: its signature, its first values, and its tensors as the decoder wants them. Plain
// functions; any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "models/decoder/decoder_tensors.h"
#include "models/decoder/value_head.h"
#include "models/lm/lm_model.h"

namespace troupe {

// The tensors that the learner trains. Those of the group `policy` are sent, too: the parameters under the names of
// Hugging Face's checkpoints, or with LoRA the adapters and an empty buffer "frozen.HASH", so that weights fit only a
// model with the same frozen weights. The group `critic`: critic.value_head.weight [1, hidden] and
// critic.value_head.bias [1], and of a separate critic the parameters of its decoder without an output layer as
// "critic.NAME".
Signature lm_signature(const LmModel& model);
// "frozen.HASH".
std::string frozen_name(const std::string& hash);
// The hash in such a name; nothing for another name.
std::optional<std::string> frozen_hash_in(const std::string& name);

// Random first values: norms 1, biases 0, matrices normal with a standard deviation of 0.02. Each tensor depends on the
// seed and its name alone.
void draw_lm_weights(const LmShape& shape, uint64_t seed, WeightBlock& weights);
// The first weights of a run: those of model.path, random ones, or adapters that change nothing (B = 0, and A uniform
// within 1 / sqrt(inputs) of 0, as in PEFT). A critic begins with a value head of 0, and a separate one as
// begin_critic() says. Throws ConfigError for files that cannot be read.
void begin_lm_weights(const LmModel& model, uint64_t seed, WeightBlock& weights);
// The first weights of a separate critic's decoder: those of model.critic_path, of which the score of a reward model
// becomes the value head, or of the policy as it is in `weights`, with LoRA without its adapters.
void begin_critic(const LmModel& model, WeightBlock& weights);

DecoderWeights decoder_weights(const LmModel& model, const WeightBlock& weights);
// The adapters alone; everything else is empty.
DecoderWeights adapter_weights(const LmModel& model, const WeightBlock& weights);
// Those of a separate critic, whose output layer is empty.
DecoderWeights critic_weights(const LmModel& model, const WeightBlock& weights);
ValueHeadTensors<const float> head_weights(const WeightBlock& weights);

// Views of `gradients`, which is laid out as the block's trained parameters. Frozen weights have none.
DecoderGradients decoder_gradients(const LmModel& model, const WeightBlock& weights, std::span<float> gradients);
DecoderGradients critic_gradients(const LmModel& model, const WeightBlock& weights, std::span<float> gradients);
ValueHeadTensors<float> head_gradients(const WeightBlock& weights, std::span<float> gradients);

}  // namespace troupe
