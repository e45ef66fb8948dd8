#include "models/decoder/packed_decoder.h"

#include <algorithm>

namespace troupe {

void pack(const LmShape& shape, const LayerTensors<const float>& weights, LayerProduct product, PackedWeights& to,
          ParallelFor& parallel) {
  const std::span<const float> qkv[] = {weights.query, weights.key, weights.value};
  const std::span<const float> gate_up[] = {weights.gate, weights.up};
  switch (product) {
    case LayerProduct::qkv: return to.pack(qkv, shape.hidden, parallel);
    case LayerProduct::output: return to.pack({&weights.output, 1}, shape.query_width(), parallel);
    case LayerProduct::gate_up: return to.pack(gate_up, shape.hidden, parallel);
    case LayerProduct::down: return to.pack({&weights.down, 1}, shape.intermediate, parallel);
  }
}

void PackedDecoder::pack(const LmShape& shape, const DecoderWeights& weights, ParallelFor& parallel) {
  layers_.resize(weights.layers.size());
  for (size_t i = 0; i < layers_.size(); ++i)
    for (const LayerProduct product : kLayerProducts)
      troupe::pack(shape, weights.layers[i], product, layers_[i].of[static_cast<size_t>(product)], parallel);
  output_.pack({&weights.output, 1}, shape.hidden, parallel);
}

void PackedDecoder::keep(std::span<const float> values, std::span<const float>& copy) {
  FloatBuffer& buffer = copies_.emplace_back(static_cast<int64_t>(values.size()));
  std::ranges::copy(values, buffer.data());
  copy = buffer.span();
}

void PackedDecoder::keep_rest(const DecoderWeights& weights) {
  copies_.clear();
  rest_ = {};
  for (const LayerTensors<const float>& from : weights.layers) {
    LayerTensors<const float>& to = rest_.layers.emplace_back();
    keep(from.input_norm, to.input_norm);
    keep(from.post_norm, to.post_norm);
    keep(from.query_bias, to.query_bias);
    keep(from.key_bias, to.key_bias);
    keep(from.value_bias, to.value_bias);
    keep(from.query_norm, to.query_norm);
    keep(from.key_norm, to.key_norm);
  }
  keep(weights.norm, rest_.norm);
  if (weights.output.data() != weights.embedding.data()) keep(weights.embedding, rest_.embedding);
}

}  // namespace troupe
