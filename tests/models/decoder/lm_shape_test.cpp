#include "models/decoder/lm_shape.h"

#include <string>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// SmolLM2-135M.
Json smol() {
  return Json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu", "hidden_size": 576,
    "intermediate_size": 1536, "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9,
    "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-05, "rope_scaling": null,
    "rope_theta": 100000, "tie_word_embeddings": true, "vocab_size": 49152, "use_cache": true})");
}

LmShape read(const Json& config) { return lm_shape_from_config(config.dump(), "config.json"); }

// The error for the config with `key` set to `value`.
std::string refusal(const char* key, const Json& value, Json config = smol()) {
  config[key] = value;
  try {
    read(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("lm_shape: a config of the Llama family is read") {
  const LmShape shape = read(smol());
  CHECK(shape.family == LmFamily::llama);
  CHECK(shape.vocabulary == 49152);
  CHECK(shape.hidden == 576);
  CHECK(shape.layers == 30);
  CHECK(shape.heads == 9);
  CHECK(shape.kv_heads == 3);
  CHECK(shape.head_dim == 64);
  CHECK(shape.intermediate == 1536);
  CHECK(shape.max_positions == 8192);
  CHECK(shape.rope_theta == 100000);
  CHECK(shape.rms_eps == 1e-5);
  CHECK(shape.tied_embeddings);
  CHECK_FALSE(shape.qkv_bias);
  CHECK_FALSE(shape.qk_norm);
  CHECK(shape.rope_scaling == RopeScaling::none);
  CHECK(lm_parameter_count(shape) == 134515008);
}

TEST_CASE("lm_shape: Qwen2 has biases, Qwen3 normalised heads of 128 by default") {
  Json config = smol();
  config["model_type"] = "qwen2";
  CHECK(read(config).qkv_bias);
  config["model_type"] = "qwen3";
  CHECK(read(config).qk_norm);
  CHECK(read(config).head_dim == 128);
  config["head_dim"] = 32;
  CHECK(read(config).head_dim == 32);
}

TEST_CASE("lm_shape: rope_theta is read at both places") {
  Json config = smol();
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000.0}};
  CHECK(read(config).rope_theta == 5000);
  config.erase("rope_theta");
  CHECK(read(config).rope_theta == 5000);
  config.erase("rope_parameters");
  CHECK(read(config).rope_theta == 10000);
}

TEST_CASE("lm_shape: the llama3 scaling is read from rope_scaling and rope_parameters") {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    Json config = smol();
    config[key] = {{"rope_type", "llama3"},
                   {"factor", 32.0},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 4.0},
                   {"original_max_position_embeddings", 8192}};
    const LmShape shape = read(config);
    CHECK(shape.rope_scaling == RopeScaling::llama3);
    CHECK(shape.rope_factor == 32);
    CHECK(shape.rope_low_freq_factor == 1);
    CHECK(shape.rope_high_freq_factor == 4);
    CHECK(shape.rope_original_positions == 8192);
  }
}

TEST_CASE("lm_shape: what is not supported is refused by name") {
  CHECK(refusal("model_type", "gpt2") == "config.json: model_type: gpt2, supported are llama, qwen2 and qwen3");
  CHECK(refusal("model_type", nullptr) == "config.json: model_type: is missing, supported are llama, qwen2 and qwen3");
  CHECK(refusal("model_type", "qwen3_moe") ==
        "config.json: model_type: qwen3_moe, a mixture of experts is not supported");
  CHECK(refusal("num_experts", 8) == "config.json: num_experts: 8, a mixture of experts is not supported");
  CHECK(refusal("use_sliding_window", true) == "config.json: use_sliding_window: sliding windows are not supported");
  CHECK(refusal("layer_types", {"full_attention", "sliding_attention"}) ==
        "config.json: layer_types: \"sliding_attention\", supported is \"full_attention\"");
  CHECK(refusal("hidden_act", "gelu") == "config.json: hidden_act: gelu, supported is silu");
  CHECK(refusal("attention_bias", true) ==
        "config.json: attention_bias: true, supported is false: this bias includes o_proj");
  CHECK(refusal("mlp_bias", true) == "config.json: mlp_bias: true, supported is false");
  CHECK(refusal("quantization_config", Json::object({{"bits", 4}})) ==
        "config.json: quantization_config: quantised weights are not supported, expected float32, float16 or bfloat16");
  CHECK(refusal("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}) ==
        "config.json: rope_scaling: rope_type: yarn, supported are default and llama3");
  CHECK(refusal("rope_scaling", {{"type", "linear"}, {"factor", 4.0}}) ==
        "config.json: rope_scaling: rope_type: linear, supported are default and llama3");
  CHECK(refusal("rope_parameters", Json::object({{"full_attention", Json::object({{"rope_theta", 10000.0}})}})) ==
        "config.json: rope_parameters: full_attention: is an object, a value for each layer type is not supported");
}

TEST_CASE("lm_shape: attention that is not causal is refused") {
  CHECK(refusal("is_causal", false) == "config.json: is_causal: false, supported is true");
  CHECK(refusal("is_causal", true) == "accepted");
  CHECK(refusal("use_bidirectional_attention", true) ==
        "config.json: use_bidirectional_attention: true, supported is false");
}

TEST_CASE("lm_shape: rope_scaling beside rope_parameters is refused unless both say the same") {
  Json config = smol();
  const Json llama3{{"rope_type", "llama3"},
                    {"factor", 32.0},
                    {"low_freq_factor", 1.0},
                    {"high_freq_factor", 4.0},
                    {"original_max_position_embeddings", 8192}};
  config["rope_scaling"] = llama3;
  config["rope_parameters"] = llama3;
  config["rope_parameters"]["rope_theta"] = 100000;  // that of config.json
  CHECK(read(config).rope_factor == 32);
  CHECK(refusal("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 100000}}, config)
            .starts_with("config.json: rope_scaling: {\"rope_type\":\"llama3\","));
  config["rope_parameters"]["rope_theta"] = 5000;
  CHECK(refusal("rope_type", nullptr, config).find(" is not the same as rope_parameters, ") != std::string::npos);
  CHECK(refusal("rope_parameters", {{"rope_theta", 100000}}, config).find("; remove one of them") != std::string::npos);
}

TEST_CASE("lm_shape: a key of a setting that is not read is refused, with the one that may be meant") {
  const auto error = [](const char* key, const Json& value) -> std::string {
    Json config = smol();
    config.erase("use_cache");
    config[key] = value;
    try {
      lm_shape_from_setting(config.dump(), "model.decoder");
    } catch (const ConfigError& refused) {
      return refused.what();
    }
    return "accepted";
  };
  CHECK(error("head_dim", 64) == "accepted");
  CHECK(error("tie_word_embedings", false) ==
        "model.decoder.tie_word_embedings: unknown key, did you mean model.decoder.tie_word_embeddings?");
  CHECK(error("zebra", 1) == "model.decoder.zebra: unknown key");
  CHECK(error("rope_scaling", {{"rope_tpye", "llama3"}}) ==
        "model.decoder.rope_scaling.rope_tpye: unknown key, did you mean model.decoder.rope_scaling.rope_type?");
}

TEST_CASE("lm_shape: a wrong value is named with what is expected") {
  CHECK(refusal("hidden_size", nullptr) == "config.json: hidden_size: is missing, expected a whole number");
  CHECK(refusal("hidden_size", -1) == "config.json: hidden_size: -1, expected a whole number from 1 to 2147483648");
  CHECK(refusal("hidden_size", 5.5) == "config.json: hidden_size: 5.5, expected a whole number from 1 to 2147483648");
  CHECK(refusal("hidden_size", 577) == "config.json: hidden_size: 577, expected a multiple of num_attention_heads, 9");
  CHECK(refusal("num_key_value_heads", 2) ==
        "config.json: num_attention_heads: 9, expected a multiple of num_key_value_heads, 2");
  CHECK(refusal("head_dim", 33) == "config.json: head_dim: 33, expected an even number");
  CHECK(refusal("rms_norm_eps", 0) == "config.json: rms_norm_eps: 0, expected a number above 0");
  CHECK(refusal("tie_word_embeddings", "yes") == "config.json: tie_word_embeddings: \"yes\", expected true or false");
  CHECK(refusal("rope_scaling", 3) == "config.json: rope_scaling: is number, expected an object");
  CHECK(refusal("rope_scaling", Json::object({{"rope_type", "llama3"}})) ==
        "config.json: rope_scaling: factor: is missing, expected a number above 0");
}

TEST_CASE("lm_shape: a model that is too large for any computer is refused") {
  CHECK(refusal("num_hidden_layers", 1000000000) ==
        "config.json: num_hidden_layers: 1000000000, expected at most 10000");
  CHECK(refusal("intermediate_size", 2000000000) ==
        "config.json: these sizes make a model of about 1.0368e+14 parameters, expected at most 1e+12");
}

TEST_CASE("lm_shape: parameters have the names and shapes of Hugging Face's checkpoints") {
  Json config = smol();
  config["num_hidden_layers"] = 1;
  const std::vector<LmTensor> llama = lm_tensors(read(config));
  CHECK(llama.size() == 11);
  CHECK(llama.front() == LmTensor{"model.embed_tokens.weight", {49152, 576}});
  CHECK(llama[2] == LmTensor{"model.layers.0.self_attn.q_proj.weight", {576, 576}});
  CHECK(llama[3] == LmTensor{"model.layers.0.self_attn.k_proj.weight", {192, 576}});
  CHECK(llama[9] == LmTensor{"model.layers.0.mlp.down_proj.weight", {576, 1536}});
  CHECK(llama.back() == LmTensor{"model.norm.weight", {576}});
  config["tie_word_embeddings"] = false;
  CHECK(lm_tensors(read(config)).back() == LmTensor{"lm_head.weight", {49152, 576}});
  config["model_type"] = "qwen2";
  CHECK(lm_tensors(read(config)).size() == 15);
  config["model_type"] = "qwen3";
  CHECK(lm_tensors(read(config)).size() == 14);
}
