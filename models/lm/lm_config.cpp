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
  const LmShape shape = lm_shape_from_setting(object.dump(), path);
  if (shape.vocabulary < vocabulary)
    throw ConfigError(path + ": vocab_size: " + std::to_string(shape.vocabulary) + ", but the tokenizer has " +
                      std::to_string(vocabulary) + " tokens");
  if (shape.max_positions < positions)
    throw ConfigError(path + ": max_position_embeddings: " + std::to_string(shape.max_positions) +
                      ", but a prompt and an answer may have " + std::to_string(positions) + " tokens together");
  return shape;
}

namespace {

const char* class_of(LmFamily family) {
  switch (family) {
    case LmFamily::llama: return "LlamaForCausalLM";
    case LmFamily::qwen2: return "Qwen2ForCausalLM";
    case LmFamily::qwen3: return "Qwen3ForCausalLM";
  }
  TROUPE_CHECK(false, "family", static_cast<int>(family));
  return "";
}

}  // namespace

std::string lm_config_text(const LmShape& shape, std::string_view extra) {
  Json config{{"architectures", Json::array({class_of(shape.family)})},
              {"model_type", std::string(name_of(shape.family))},
              {"vocab_size", shape.vocabulary},
              {"hidden_size", shape.hidden},
              {"num_hidden_layers", shape.layers},
              {"num_attention_heads", shape.heads},
              {"num_key_value_heads", shape.kv_heads},
              {"head_dim", shape.head_dim},
              {"intermediate_size", shape.intermediate},
              {"max_position_embeddings", shape.max_positions},
              {"rms_norm_eps", shape.rms_eps},
              {"rope_theta", shape.rope_theta},
              {"tie_word_embeddings", shape.tied_embeddings},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"torch_dtype", "float32"}};
  if (shape.rope_scaling == RopeScaling::llama3)
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", shape.rope_factor},
                              {"low_freq_factor", shape.rope_low_freq_factor},
                              {"high_freq_factor", shape.rope_high_freq_factor},
                              {"original_max_position_embeddings", shape.rope_original_positions}};
  config.update(parse_strict(extra, "config.json"));
  return config.dump();
}

std::string lm_differences(const LmShape& shape, const LmShape& other) {
  const Json of_shape = parse_strict(lm_config_text(shape), "config.json"),
             of_other = parse_strict(lm_config_text(other), "config.json");
  Json all = of_other;
  all.update(of_shape);
  std::string text;
  for (const auto& item : all.items()) {
    const std::string& key = item.key();
    const Json here = of_shape.contains(key) ? of_shape.at(key) : Json(),
               there = of_other.contains(key) ? of_other.at(key) : Json();
    if (here != there) text += (text.empty() ? "" : ", ") + key + ' ' + here.dump() + " instead of " + there.dump();
  }
  return text;
}

}  // namespace troupe
