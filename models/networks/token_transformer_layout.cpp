#include "models/networks/token_transformer_layout.h"

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "models/decoder/lora.h"
#include "models/heads/heads.h"
#include "models/networks/mlp_layout.h"
#include "models/networks/token_transformer_base.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"

namespace troupe {

namespace {

constexpr const char* kSetting = "model.decoder";

void require_value(const char* key, int64_t value, int64_t wanted, const std::string& what) {
  if (value != wanted)
    throw ConfigError(std::string(kSetting) + ": " + key + ": " + std::to_string(value) + ", but " + what + " " +
                      std::to_string(wanted) + "; remove it");
}

double gain_of(const LmTensor& tensor, const ModelConfig& config, const LmShape& shape) {
  if (tensor.shape.rank() == 1) return 0.0;
  if (tensor.name == "lm_head.weight") return config.policy_gain;
  const bool adds = tensor.name.ends_with("o_proj.weight") || tensor.name.ends_with("down_proj.weight");
  return adds ? 1.0 / std::sqrt(2.0 * static_cast<double>(shape.layers)) : 1.0;
}

// The adapters in place of the tensors that stay frozen. A's rows have the length that uniform numbers within
// 1 / sqrt(inputs) of 0 would give them.
void add_adapters(NetworkLayout& layout, const LmShape& shape, const LoraConfig& lora, const std::string& hash) {
  for (const LmTensor& tensor : lora_tensors(shape, lora)) {
    NetworkTensor added{.name = kTokenDecoderPrefix + tensor.name, .shape = tensor.shape};
    added.gain = tensor.name.ends_with("lora_A.weight") ? 1.0 / std::sqrt(3.0) : 0.0;
    layout.tensors.push_back(std::move(added));
  }
  layout.tensors.push_back({.name = kFrozenPrefix + hash, .shape = Shape{0}, .group = TensorGroup::buffer});
}

}  // namespace

bool is_of_base(const std::string& name) { return name != "lm_head.weight"; }

LmShape token_transformer_shape(const ModelConfig& config, const EnvSpec& env) {
  if (env.action.kind == ActionKind::continuous)
    throw ConfigError("model.kind: \"token_transformer\" decides among tokens, but the actions of " + env.id +
                      " are continuous; use \"mlp\" or \"net\"");
  const Head head(env.action);
  Json object = parse_strict(config.decoder, kSetting);
  const auto fill = [&](const char* key, const Json& value) {
    if (!object.contains(key)) object[key] = value;
  };
  fill("model_type", "llama");
  fill("vocab_size", head.outputs());
  fill("max_position_embeddings", head.decisions());
  fill("tie_word_embeddings", false);
  const LmShape shape = lm_shape_from_setting(object.dump(), kSetting);
  require_value("vocab_size", shape.vocabulary, head.outputs(), "the number of bins of all decisions is");
  require_value("max_position_embeddings", shape.max_positions, head.decisions(), "the number of decisions is");
  if (shape.tied_embeddings)
    throw ConfigError(std::string(kSetting) +
                      ": tie_word_embeddings: true, but model.kind \"token_transformer\" needs false");
  return shape;
}

NetworkLayout token_transformer_layout(const ModelConfig& config, const EnvSpec& env) {
  const LmShape shape = token_transformer_shape(config, env);
  NetworkLayout layout;
  layout.autoregressive = true;
  const int64_t features = add_all_observations(layout, env);
  const int64_t top = add_mlp_trunk(layout, "policy", config, features, TensorGroup::policy);
  add_linear(layout, "policy.input", shape.hidden, top, TensorGroup::policy, 1.0);
  const LoraConfig lora = lora_from_config(config.lora, "model.lora");
  const std::shared_ptr<const TokenTransformerBase> base = lora.used() ? token_transformer_base(config.path) : nullptr;
  for (const LmTensor& tensor : lm_tensors(shape)) {
    NetworkTensor added{.name = kTokenDecoderPrefix + tensor.name, .shape = tensor.shape};
    if (base != nullptr && is_of_base(tensor.name)) {
      base->require(added.name, added.shape);
      continue;
    }
    added.gain = gain_of(tensor, config, shape);
    added.start = tensor.name.ends_with("norm.weight") ? 1.0 : 0.0;
    layout.tensors.push_back(std::move(added));
  }
  // Of each token: the inputs and results of every layer's matrix products.
  const int64_t of_token =
      shape.layers * (6 * shape.hidden + 2 * shape.query_width() + 2 * shape.kv_width() + 3 * shape.intermediate) +
      shape.vocabulary;
  layout.units += Head(env.action).decisions() * of_token;
  const int64_t value_top = add_mlp_trunk(layout, "value", config, features, TensorGroup::value);
  layout.value_head = add_linear(layout, "value.head", 1, value_top, TensorGroup::value, 1.0);
  if (base == nullptr) return layout;
  for (const NetworkTensor& tensor : layout.tensors) base->require(tensor.name, tensor.shape);
  layout.begins_with = {base, &base->tensors};
  add_adapters(layout, shape, lora, base->hash);
  return layout;
}

}  // namespace troupe
