#pragma once
// The model of a token run, as the setting model.decoder describes it. A pure function; any thread.

#include <cstdint>
#include <string>
#include <string_view>

#include "models/decoder/lm_shape.h"
#include "models/networks/model_config.h"

namespace troupe {

// The shape that model.decoder describes with the keys of a config.json of transformers. Where they are missing,
// model_type is llama, vocab_size is `vocabulary`, max_position_embeddings is `positions` and tie_word_embeddings is
// true. Throws ConfigError that begins with "model.decoder: ".
LmShape lm_shape_of(const ModelConfig& config, int64_t vocabulary, int64_t positions);

// The config.json of this shape, on one line, which lm_shape_from_config() reads as the same shape and transformers as
// the same model. `extra` is the text of an object whose keys are added, such as token ids.
std::string lm_config_text(const LmShape& shape, std::string_view extra = "{}");

// The keys of their config.json in which a shape differs from another one: "hidden_size 64 instead of 128, ...".
std::string lm_differences(const LmShape& shape, const LmShape& other);

}  // namespace troupe
