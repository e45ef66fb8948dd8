#include "models/decoder/lm_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

// One object of a config.json. A key with the value null counts as missing, as in transformers.
class ConfigObject {
 public:
  ConfigObject(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value.is_object()) throw ConfigError(path_ + ": is " + value.type_name() + ", expected an object");
  }

  const Json* find(const char* key) const {
    const auto found = value_.find(key);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void refuse(const char* key, const std::string& what) const {
    throw ConfigError(path_ + ": " + key + ": " + what);
  }
  std::string shown(const char* key) const { return printable(find(key)->dump()); }

  int64_t integer(const char* key, int64_t missing = -1) const {
    constexpr int64_t kMost = int64_t{1} << 31;
    const Json* value = find(key);
    if (value == nullptr && missing >= 0) return missing;
    if (value == nullptr) refuse(key, "is missing, expected a whole number");
    if (!value->is_number_integer() || *value < 1 || *value > kMost)
      refuse(key, shown(key) + ", expected a whole number from 1 to " + std::to_string(kMost));
    return value->get<int64_t>();
  }
  double positive(const char* key, double missing) const {
    const Json* value = find(key);
    if (value == nullptr && missing > 0) return missing;
    if (value == nullptr) refuse(key, "is missing, expected a number above 0");
    if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>()))
      refuse(key, shown(key) + ", expected a number above 0");
    return value->get<double>();
  }
  bool flag(const char* key, bool missing) const {
    const Json* value = find(key);
    if (value == nullptr) return missing;
    if (!value->is_boolean()) refuse(key, shown(key) + ", expected true or false");
    return value->get<bool>();
  }
  std::string text(const char* key, const std::string& missing) const {
    const Json* value = find(key);
    if (value == nullptr) return missing;
    if (!value->is_string()) refuse(key, shown(key) + ", expected a string");
    return value->get<std::string>();
  }
  const std::string& path() const { return path_; }

 private:
  const Json& value_;
  std::string path_;
};

LmFamily family_of(const ConfigObject& config) {
  const std::string name = config.text("model_type", "");
  for (const LmFamily family : {LmFamily::llama, LmFamily::qwen2, LmFamily::qwen3})
    if (name == name_of(family)) return family;
  if (name.find("moe") != std::string::npos)
    config.refuse("model_type", printable(name) + ", a mixture of experts is not supported");
  config.refuse("model_type",
                (name.empty() ? "is missing" : printable(name)) + ", supported are llama, qwen2 and qwen3");
}

void refuse_unsupported(const ConfigObject& config, LmFamily family) {
  if (const std::string activation = config.text("hidden_act", "silu"); activation != "silu")
    config.refuse("hidden_act", printable(activation) + ", supported is silu");
  if (config.flag("use_sliding_window", false))
    config.refuse("use_sliding_window", "sliding windows are not supported");
  if (const Json* types = config.find("layer_types"))
    for (const Json& type : *types)
      if (type != "full_attention")
        config.refuse("layer_types", printable(type.dump()) + ", supported is \"full_attention\"");
  for (const char* key : {"num_experts", "num_local_experts"})
    if (config.find(key) != nullptr) config.refuse(key, config.shown(key) + ", a mixture of experts is not supported");
  if (config.find("quantization_config") != nullptr)
    config.refuse("quantization_config", "quantised weights are not supported, expected float32, float16 or bfloat16");
  if (family != LmFamily::qwen2 && config.flag("attention_bias", false))
    config.refuse("attention_bias", "true, supported is false: this bias includes o_proj");
  if (!config.flag("is_causal", true)) config.refuse("is_causal", "false, supported is true");
  if (config.flag("use_bidirectional_attention", false))
    config.refuse("use_bidirectional_attention", "true, supported is false");
  if (config.flag("mlp_bias", false)) config.refuse("mlp_bias", "true, supported is false");
  if (config.positive("partial_rotary_factor", 1.0) != 1.0)
    config.refuse("partial_rotary_factor", config.shown("partial_rotary_factor") + ", supported is 1");
}

// Reads the object at `key`, if there is one.
void read_rope_object(const ConfigObject& config, const std::string& source, const char* key, LmShape& shape) {
  const Json* value = config.find(key);
  if (value == nullptr) return;
  const ConfigObject rope(*value, source + ": " + key);
  for (const auto& [name, item] : value->items())
    if (item.is_object()) rope.refuse(name.c_str(), "is an object, a value for each layer type is not supported");
  shape.rope_theta = rope.positive("rope_theta", shape.rope_theta);
  if (rope.positive("partial_rotary_factor", 1.0) != 1.0)
    rope.refuse("partial_rotary_factor", rope.shown("partial_rotary_factor") + ", supported is 1");
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return;
  if (type != "llama3") rope.refuse("rope_type", printable(type) + ", supported are default and llama3");
  shape.rope_scaling = RopeScaling::llama3;
  shape.rope_factor = rope.positive("factor", 0);
  shape.rope_low_freq_factor = rope.positive("low_freq_factor", 0);
  shape.rope_high_freq_factor = rope.positive("high_freq_factor", 0);
  shape.rope_original_positions = rope.integer("original_max_position_embeddings");
  if (!(shape.rope_high_freq_factor > shape.rope_low_freq_factor))
    rope.refuse("high_freq_factor", rope.shown("high_freq_factor") + ", expected more than low_freq_factor, " +
                                        rope.shown("low_freq_factor"));
}

// transformers before version 5 has rope_theta and rope_scaling; since then both are in rope_parameters. Of two objects
// some versions read the one, others the other.
void read_rope(const ConfigObject& config, const std::string& source, LmShape& shape) {
  shape.rope_theta = config.positive("rope_theta", 10000.0);
  LmShape by_scaling = shape;
  read_rope_object(config, source, "rope_parameters", shape);
  read_rope_object(config, source, "rope_scaling", by_scaling);
  if (config.find("rope_parameters") == nullptr) shape = by_scaling;
  if (config.find("rope_scaling") != nullptr && by_scaling != shape)
    config.refuse("rope_scaling", config.shown("rope_scaling") + " is not the same as rope_parameters, " +
                                      config.shown("rope_parameters") + "; remove one of them");
}

// The keys that are read, and two that say nothing about the shape but are in each config.json.
const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = {"model_type",
                                                "vocab_size",
                                                "hidden_size",
                                                "num_hidden_layers",
                                                "num_attention_heads",
                                                "num_key_value_heads",
                                                "head_dim",
                                                "intermediate_size",
                                                "max_position_embeddings",
                                                "rms_norm_eps",
                                                "tie_word_embeddings",
                                                "rope_theta",
                                                "rope_parameters",
                                                "rope_scaling",
                                                "partial_rotary_factor",
                                                "hidden_act",
                                                "attention_bias",
                                                "mlp_bias",
                                                "is_causal",
                                                "use_bidirectional_attention",
                                                "use_sliding_window",
                                                "layer_types",
                                                "num_experts",
                                                "num_local_experts",
                                                "quantization_config",
                                                "architectures",
                                                "torch_dtype"};
  return keys;
}

const std::vector<std::string>& known_rope_keys() {
  static const std::vector<std::string> keys = {"rope_type",        "type",
                                                "rope_theta",       "partial_rotary_factor",
                                                "factor",           "low_freq_factor",
                                                "high_freq_factor", "original_max_position_embeddings"};
  return keys;
}

void require_known(const Json& object, const std::vector<std::string>& known, const std::string& path) {
  if (!object.is_object()) return;  // which is refused by name later
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string near = closest(key, known);
    throw ConfigError(path + '.' + printable(key) + ": unknown key" +
                      (near.empty() ? "" : ", did you mean " + path + '.' + near + '?'));
  }
}

int64_t default_head_dim(const ConfigObject& config, const LmShape& shape) {
  if (shape.family == LmFamily::qwen3) return 128;
  if (config.find("head_dim") == nullptr && shape.hidden % shape.heads != 0)
    config.refuse("hidden_size", std::to_string(shape.hidden) + ", expected a multiple of num_attention_heads, " +
                                     std::to_string(shape.heads));
  return shape.hidden / shape.heads;
}

constexpr int64_t kMostLayers = 10000;
constexpr double kMostParameters = 1e12;

// The matrices' elements, in float64: sizes of a wrong config may not fit int64_t when multiplied.
double about_parameters(const LmShape& shape) {
  const auto size = [](int64_t x) { return static_cast<double>(x); };
  const double attention = 2 * (size(shape.heads) + size(shape.kv_heads)) * size(shape.head_dim);
  const double layer = size(shape.hidden) * (attention + 3 * size(shape.intermediate));
  return size(shape.vocabulary) * size(shape.hidden) * (shape.tied_embeddings ? 1 : 2) + size(shape.layers) * layer;
}

std::string shown_count(double count) {
  std::ostringstream text;
  text << count;
  return text.str();
}

}  // namespace

std::string_view name_of(LmFamily family) {
  switch (family) {
    case LmFamily::llama: return "llama";
    case LmFamily::qwen2: return "qwen2";
    case LmFamily::qwen3: return "qwen3";
  }
  TROUPE_CHECK(false, "family", static_cast<int>(family));
  return "";
}

LmShape lm_shape_from_config(std::string_view text, const std::string& source) {
  const Json root = parse_strict(text, source);
  const ConfigObject config(root, source);
  LmShape shape;
  shape.family = family_of(config);
  refuse_unsupported(config, shape.family);
  shape.vocabulary = config.integer("vocab_size");
  shape.hidden = config.integer("hidden_size");
  shape.layers = config.integer("num_hidden_layers");
  shape.heads = config.integer("num_attention_heads");
  shape.kv_heads = config.integer("num_key_value_heads", shape.heads);
  shape.head_dim = config.integer("head_dim", default_head_dim(config, shape));
  shape.intermediate = config.integer("intermediate_size");
  shape.max_positions = config.integer("max_position_embeddings", shape.family == LmFamily::llama ? 2048 : 32768);
  shape.rms_eps = config.positive("rms_norm_eps", 1e-6);
  shape.tied_embeddings = config.flag("tie_word_embeddings", false);
  shape.qkv_bias = shape.family == LmFamily::qwen2;
  shape.qk_norm = shape.family == LmFamily::qwen3;
  read_rope(config, source, shape);
  check_lm_shape(shape, source);
  return shape;
}

LmShape lm_shape_from_setting(std::string_view text, const std::string& source) {
  const Json root = parse_strict(text, source);
  require_known(root, known_keys(), source);
  if (root.is_object())
    for (const char* key : {"rope_parameters", "rope_scaling"})
      if (root.contains(key)) require_known(root[key], known_rope_keys(), source + '.' + key);
  return lm_shape_from_config(text, source);
}

void check_lm_shape(const LmShape& shape, const std::string& source) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"vocab_size", shape.vocabulary},          {"hidden_size", shape.hidden},
      {"num_hidden_layers", shape.layers},       {"num_attention_heads", shape.heads},
      {"num_key_value_heads", shape.kv_heads},   {"head_dim", shape.head_dim},
      {"intermediate_size", shape.intermediate}, {"max_position_embeddings", shape.max_positions}};
  for (const auto& [key, size] : sizes)
    if (size < 1) throw ConfigError(source + ": " + key + ": " + std::to_string(size) + ", expected 1 or more");
  for (const auto& [key, value] : {std::pair{"rope_theta", shape.rope_theta}, std::pair{"rms_norm_eps", shape.rms_eps}})
    if (!(value > 0) || !std::isfinite(value))
      throw ConfigError(source + ": " + key + ": " + std::to_string(value) + ", expected a number above 0");
  if (shape.heads % shape.kv_heads != 0)
    throw ConfigError(source + ": num_attention_heads: " + std::to_string(shape.heads) +
                      ", expected a multiple of num_key_value_heads, " + std::to_string(shape.kv_heads));
  if (shape.head_dim % 2 != 0)
    throw ConfigError(source + ": head_dim: " + std::to_string(shape.head_dim) + ", expected an even number");
  if (shape.layers > kMostLayers)
    throw ConfigError(source + ": num_hidden_layers: " + std::to_string(shape.layers) + ", expected at most " +
                      std::to_string(kMostLayers));
  if (const double parameters = about_parameters(shape); parameters > kMostParameters)
    throw ConfigError(source + ": these sizes make a model of about " + shown_count(parameters) +
                      " parameters, expected at most " + shown_count(kMostParameters));
}

std::string lm_layer_prefix(int64_t layer) { return "model.layers." + std::to_string(layer) + '.'; }

std::vector<LmTensor> lm_tensors(const LmShape& shape) {
  const int64_t hidden = shape.hidden, queries = shape.query_width(), keys = shape.kv_width();
  std::vector<LmTensor> result = {{"model.embed_tokens.weight", {shape.vocabulary, hidden}}};
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = lm_layer_prefix(layer);
    const auto add = [&](const std::string& name, Shape size) { result.push_back({prefix + name, size}); };
    add("input_layernorm.weight", {hidden});
    add("self_attn.q_proj.weight", {queries, hidden});
    add("self_attn.k_proj.weight", {keys, hidden});
    add("self_attn.v_proj.weight", {keys, hidden});
    if (shape.qkv_bias) {
      add("self_attn.q_proj.bias", {queries});
      add("self_attn.k_proj.bias", {keys});
      add("self_attn.v_proj.bias", {keys});
    }
    if (shape.qk_norm) {
      add("self_attn.q_norm.weight", {shape.head_dim});
      add("self_attn.k_norm.weight", {shape.head_dim});
    }
    add("self_attn.o_proj.weight", {hidden, queries});
    add("post_attention_layernorm.weight", {hidden});
    add("mlp.gate_proj.weight", {shape.intermediate, hidden});
    add("mlp.up_proj.weight", {shape.intermediate, hidden});
    add("mlp.down_proj.weight", {hidden, shape.intermediate});
  }
  result.push_back({"model.norm.weight", {hidden}});
  if (!shape.tied_embeddings) result.push_back({"lm_head.weight", {shape.vocabulary, hidden}});
  return result;
}

int64_t lm_parameter_count(const LmShape& shape) {
  const std::vector<LmTensor> tensors = lm_tensors(shape);
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t sum, const LmTensor& tensor) { return sum + tensor.shape.elements(); });
}

}  // namespace troupe
