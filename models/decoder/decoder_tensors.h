#pragma once
// DecoderTensors: the parameters of a decoder, or their gradients, as views by role. Whoever owns the memory keeps it
// alive. Any thread.

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/decoder/lora.h"

namespace troupe {

// The adapter of a linear layer; empty without one.
template <class T>
struct LoraTensors {
  std::span<T> a, b;  // [rank, inputs], [outputs, rank]
  float scale = 1;
};

// One layer. A matrix is [outputs, inputs], dense.
template <class T>
struct LayerTensors {
  std::span<T> input_norm, query, key, value, output, post_norm, gate, up, down;
  std::span<T> query_bias, key_bias, value_bias;  // empty without qkv_bias
  std::span<T> query_norm, key_norm;              // empty without qk_norm
  std::array<LoraTensors<T>, kLmLinears> lora;    // by LmLinear

  const LoraTensors<T>& adapter(LmLinear linear) const { return lora[static_cast<size_t>(linear)]; }
  // Calls it with each tensor, also the empty ones.
  template <class Call>
  void for_each(Call call) const {
    for (const std::span<T>* tensor : {&input_norm, &query, &key, &value, &output, &post_norm, &gate, &up, &down,
                                       &query_bias, &key_bias, &value_bias, &query_norm, &key_norm})
      call(*tensor);
    for (const LoraTensors<T>& each : lora) {
      call(each.a);
      call(each.b);
    }
  }
};

// As gradients, tensors that are not trained are empty.
template <class T>
struct DecoderTensors {
  std::span<T> embedding;  // [vocabulary, hidden]
  std::vector<LayerTensors<T>> layers;
  std::span<T> norm;    // [hidden]
  std::span<T> output;  // [vocabulary, hidden]; with tied embeddings the same memory as `embedding`
};

using DecoderWeights = DecoderTensors<const float>;
using DecoderGradients = DecoderTensors<float>;

// The tensors of lm_tensors(shape), found by name. Throws InvariantError when one has another number of elements than
// its shape.
template <class T>
DecoderTensors<T> bind_decoder(const LmShape& shape, const std::function<std::span<T>(const std::string& name)>& find);

// Adds the adapters of lora_tensors(shape, lora) to `tensors`.
template <class T>
void bind_lora(const LmShape& shape, const LoraConfig& lora,
               const std::function<std::span<T>(const std::string& name)>& find, DecoderTensors<T>& tensors);

// Gradients of a decoder with frozen weights: all empty, as many layers as it has.
DecoderGradients no_gradients(const LmShape& shape);

}  // namespace troupe
