#pragma once
// LmShape: the shape of a decoder transformer of the families Llama, Qwen2 and Qwen3, as config.json of Hugging Face's
// transformers (github.com/huggingface/transformers) describes it, and the names and shapes of its parameters. Plain
// values; any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"

namespace troupe {

enum class LmFamily : uint8_t { llama = 0, qwen2 = 1, qwen3 = 2 };

// The value of "model_type".
std::string_view name_of(LmFamily family);

// "llama3" stretches the low frequencies of rotary embeddings (rope_type "llama3" of transformers).
enum class RopeScaling : uint8_t { none = 0, llama3 = 1 };

struct LmShape {
  LmFamily family = LmFamily::llama;
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads: heads / kv_heads query heads share one key head
  int64_t head_dim = 0;  // even
  int64_t intermediate = 0;
  int64_t max_positions = 0;  // positions that the model was made for, from 0
  double rope_theta = 10000.0;
  double rms_eps = 1e-6;
  bool tied_embeddings = false;  // the output layer is the token embedding
  bool qkv_bias = false;         // q_proj, k_proj and v_proj have biases
  bool qk_norm = false;          // queries and keys are normalised per head before rotary embedding
  RopeScaling rope_scaling = RopeScaling::none;
  // Only for llama3.
  double rope_factor = 1.0;
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  int64_t rope_original_positions = 8192;

  int64_t query_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
  int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  int64_t group() const { return heads / kv_heads; }

  friend bool operator==(const LmShape&, const LmShape&) = default;
};

// The shape that `text`, the contents of a config.json, describes. Keys that do not change the computation are ignored.
// Throws ConfigError that begins with `source` and the key for a value that is missing, wrong, or stands for something
// that is not supported: another model_type, a mixture of experts, sliding windows, quantised weights, another
// activation or rope type, attention that is not causal, rope_scaling beside other rope_parameters.
LmShape lm_shape_from_config(std::string_view text, const std::string& source);
// The same of a setting, where a key that lm_shape_from_config() does not read is refused too.
LmShape lm_shape_from_setting(std::string_view text, const std::string& source);

// Throws ConfigError that begins with `source` unless sizes, rope_theta and rms_eps are positive, sizes fit each other,
// and the model has at most 10,000 layers and 1e12 parameters.
void check_lm_shape(const LmShape& shape, const std::string& source);

struct LmTensor {
  std::string name;  // as in Hugging Face's checkpoints
  Shape shape;       // a matrix is [outputs, inputs]

  friend bool operator==(const LmTensor&, const LmTensor&) = default;
};

// Every parameter, float32: the embedding, the layers in order, the last norm, and the output layer unless it is tied.
std::vector<LmTensor> lm_tensors(const LmShape& shape);
// "model.layers.3.".
std::string lm_layer_prefix(int64_t layer);

// Elements of all parameters together.
int64_t lm_parameter_count(const LmShape& shape);

}  // namespace troupe
