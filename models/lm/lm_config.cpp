#include "models/lm/lm_config.h"

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"

namespace troupe {

LmShape lm_shape_of(const ModelConfig& config, int64_t vocabulary, int64_t positions) {
  const std::string path = "model.decoder";
  Json object = parse_strict(config.decoder, path);
  const auto fill = [&](const char* key, const Json& value) {
    if (!object.contains(key)) object[key] = value;
  };
  fill("model_type", "llama");
  fill("vocab_size", vocabulary);
  fill("max_position_embeddings", positions);
  fill("tie_word_embeddings", true);
  const LmShape shape = lm_shape_from_config(object.dump(), path);
  if (shape.vocabulary < vocabulary)
    throw ConfigError(path + ": vocab_size: " + std::to_string(shape.vocabulary) + ", but the tokenizer has " +
                      std::to_string(vocabulary) + " tokens");
  if (shape.max_positions < positions)
    throw ConfigError(path + ": max_position_embeddings: " + std::to_string(shape.max_positions) +
                      ", but a prompt and an answer may have " + std::to_string(positions) + " tokens together");
  return shape;
}

}  // namespace troupe
