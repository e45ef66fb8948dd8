#pragma once
// DecoderTensors: the parameters of a decoder, or their gradients, as views by role. Whoever owns the memory keeps it
// alive. Any thread.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/lm/lm_shape.h"

namespace troupe {

// One layer. A matrix is [outputs, inputs], dense.
template <class T>
struct LayerTensors {
  std::span<T> input_norm, query, key, value, output, post_norm, gate, up, down;
  std::span<T> query_bias, key_bias, value_bias;  // empty without qkv_bias
  std::span<T> query_norm, key_norm;              // empty without qk_norm
};

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

}  // namespace troupe
