#pragma once
// The model of a token run, as the setting model.decoder describes it. A pure function; any thread.

#include <cstdint>

#include "models/lm/lm_shape.h"
#include "models/networks/model_config.h"

namespace troupe {

// The shape that model.decoder describes with the keys of a config.json of transformers. Where they are missing,
// model_type is llama, vocab_size is `vocabulary`, max_position_embeddings is `positions` and tie_word_embeddings is
// true. Throws ConfigError that begins with "model.decoder: ".
LmShape lm_shape_of(const ModelConfig& config, int64_t vocabulary, int64_t positions);

}  // namespace troupe
