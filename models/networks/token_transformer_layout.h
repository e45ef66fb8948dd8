#pragma once
// The layout of model.kind "token_transformer": a decoder transformer that decides token by token. A decision is a
// token of its own vocabulary: bin b of decision d is token (outputs of the decisions before d) + b. The input for a
// decision is a vector made from the observations, plus the embedding of the decision before. No LibTorch. Plain
// functions; any thread.
//
//   observations to that vector:     policy.<i>.weight|bias (model.hidden), policy.input.weight|bias
//   decoder:                         policy.model.*, policy.lm_head.weight (names as in Hugging Face's checkpoints)
//   value function:                  value.<i>.weight|bias (model.hidden), value.head.weight|bias
//
// With model.lora, policy.model.* are not among them: they stay as the base has them (token_transformer_base.h). In
// their place are the adapters, policy.model.layers.<i>.*.lora_A|lora_B.weight, and an empty buffer frozen.HASH, so
// that weights fit only a model with the same base.

#include "models/decoder/lm_shape.h"
#include "models/networks/network_layout.h"

namespace troupe {

inline constexpr const char* kTokenDecoderPrefix = "policy.";

inline constexpr const char* kFrozenPrefix = "frozen.";

// The decoder that model.decoder describes for the decisions of the environment. Throws ConfigError that begins with
// the setting: for continuous actions, and for a vocab_size, max_position_embeddings or tied embeddings that do not
// fit.
LmShape token_transformer_shape(const ModelConfig& config, const EnvSpec& env);

// Whether the tensor of the decoder stays as the base has it if there are adapters.
bool is_of_base(const std::string& name);

// First values: orthogonal matrices with a gain of 1, sqrt(2) in the layers of model.hidden, policy_gain in the output
// layer, and 1 / sqrt(2 layers) where a layer adds to its input; norms 1, biases 0. With model.lora those of the base;
// of adapters A is orthogonal with a gain of 1 / sqrt(3), and B is 0.
NetworkLayout token_transformer_layout(const ModelConfig& config, const EnvSpec& env);

}  // namespace troupe
