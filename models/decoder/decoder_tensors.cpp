#include "models/decoder/decoder_tensors.h"

#include <map>

#include "runtime/base/errors.h"

namespace troupe {
namespace {

template <class T>
using Roles = std::map<std::string, std::span<T> LayerTensors<T>::*>;

template <class T>
const Roles<T>& roles() {
  using L = LayerTensors<T>;
  static const Roles<T> result = {
      {"input_layernorm.weight", &L::input_norm},
      {"self_attn.q_proj.weight", &L::query},
      {"self_attn.k_proj.weight", &L::key},
      {"self_attn.v_proj.weight", &L::value},
      {"self_attn.q_proj.bias", &L::query_bias},
      {"self_attn.k_proj.bias", &L::key_bias},
      {"self_attn.v_proj.bias", &L::value_bias},
      {"self_attn.q_norm.weight", &L::query_norm},
      {"self_attn.k_norm.weight", &L::key_norm},
      {"self_attn.o_proj.weight", &L::output},
      {"post_attention_layernorm.weight", &L::post_norm},
      {"mlp.gate_proj.weight", &L::gate},
      {"mlp.up_proj.weight", &L::up},
      {"mlp.down_proj.weight", &L::down},
  };
  return result;
}

}  // namespace

template <class T>
DecoderTensors<T> bind_decoder(const LmShape& shape, const std::function<std::span<T>(const std::string& name)>& find) {
  DecoderTensors<T> result;
  result.layers.resize(static_cast<size_t>(shape.layers));
  std::map<std::string, std::span<T>*> places = {{"model.embed_tokens.weight", &result.embedding},
                                                 {"model.norm.weight", &result.norm},
                                                 {"lm_head.weight", &result.output}};
  for (int64_t i = 0; i < shape.layers; ++i)
    for (const auto& [name, role] : roles<T>())
      places[lm_layer_prefix(i) + name] = &(result.layers[static_cast<size_t>(i)].*role);
  for (const LmTensor& tensor : lm_tensors(shape)) {
    const std::span<T> found = find(tensor.name);
    TROUPE_CHECK(static_cast<int64_t>(found.size()) == tensor.shape.elements(), tensor.name, found.size(),
                 tensor.shape.text());
    *places.at(tensor.name) = found;
  }
  if (shape.tied_embeddings) result.output = result.embedding;
  return result;
}

template <class T>
void bind_lora(const LmShape& shape, const LoraConfig& lora,
               const std::function<std::span<T>(const std::string& name)>& find, DecoderTensors<T>& tensors) {
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (size_t i = 0; i < kLmLinears; ++i) {
      const auto linear = static_cast<LmLinear>(i);
      if (!lora.has(linear)) continue;
      const auto [inputs, outputs] = size_of(shape, linear);
      const std::string prefix = linear_prefix(layer, linear);
      const std::span<T> a = find(prefix + "lora_A.weight"), b = find(prefix + "lora_B.weight");
      TROUPE_CHECK(static_cast<int64_t>(a.size()) == lora.rank * inputs, prefix, a.size());
      TROUPE_CHECK(static_cast<int64_t>(b.size()) == lora.rank * outputs, prefix, b.size());
      tensors.layers[static_cast<size_t>(layer)].lora[i] = {a, b, lora.scale()};
    }
  }
}

DecoderGradients no_gradients(const LmShape& shape) {
  DecoderGradients result;
  result.layers.resize(static_cast<size_t>(shape.layers));
  return result;
}

template void bind_lora(const LmShape&, const LoraConfig&,
                        const std::function<std::span<const float>(const std::string&)>&, DecoderTensors<const float>&);
template void bind_lora(const LmShape&, const LoraConfig&, const std::function<std::span<float>(const std::string&)>&,
                        DecoderTensors<float>&);
template DecoderTensors<const float> bind_decoder(const LmShape&,
                                                  const std::function<std::span<const float>(const std::string&)>&);
template DecoderTensors<float> bind_decoder(const LmShape&, const std::function<std::span<float>(const std::string&)>&);

}  // namespace troupe
