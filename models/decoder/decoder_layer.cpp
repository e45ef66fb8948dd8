#include "models/decoder/decoder_layer.h"

#include <algorithm>

#include "models/decoder/norm_rows.h"

namespace troupe {
size_t LayerActivations::bytes() const {
  size_t result = 0;
  for (const FloatBuffer* buffer : {&inverse, &unrotated, &head_inverse, &qkv, &attention.max, &attention.sum,
                                    &attended, &middle, &post_inverse, &gate_up})
    result += buffer->bytes();
  return result;
}

void DecoderLayer::load(const LmShape& shape, const LayerTensors<const float>& weights, const PackedLayer* packed,
                        ParallelFor& parallel) {
  weights_ = weights;
  packed_ = packed;
  load_adapters(shape, weights, parallel);
}

void DecoderLayer::load_adapters(const LmShape& shape, const LayerTensors<const float>& weights,
                                 ParallelFor& parallel) {
  weights_.lora = weights.lora;
  for (size_t i = 0; i < kLmLinears; ++i)
    adapters_[i].load(weights.lora[i], size_of(shape, static_cast<LmLinear>(i)).inputs, parallel);
}

const PackedWeights& DecoderLayer::packed(const LayerPass& pass, LayerProduct product) const {
  if (packed_ != nullptr) return (*packed_)[product];
  pack(pass.shape, weights_, product, pass.scratch.packed, pass.parallel);
  return pass.scratch.packed;
}

// Biases, norms and rotation of queries and keys; stores keys and values.
void DecoderLayer::finish_heads(const LayerPass& pass, KvLayer& cells, LayerActivations& a) const {
  const LmShape& shape = pass.shape;
  const LmKernels& kernels = lm_kernels();
  const int64_t dim = shape.head_dim, heads = shape.heads + shape.kv_heads;
  const int64_t queries = shape.query_width(), keys = shape.kv_width(), qkv = shape.qkv_width();
  const auto eps = static_cast<float>(shape.rms_eps);
  const auto finish = [&](int64_t token) {
    const auto [position, cell] = pass.places[static_cast<size_t>(token)];
    float* row = a.qkv.data() + token * qkv;
    if (shape.qkv_bias) {
      kernels.add(weights_.query_bias.data(), queries, row);
      kernels.add(weights_.key_bias.data(), keys, row + queries);
      kernels.add(weights_.value_bias.data(), keys, row + queries + keys);
    }
    if (shape.qk_norm) std::copy_n(row, heads * dim, a.unrotated.data() + token * heads * dim);
    for (int64_t head = 0; head < heads; ++head) {
      float* x = row + head * dim;
      const std::span<const float> weight = head < shape.heads ? weights_.query_norm : weights_.key_norm;
      if (shape.qk_norm) a.head_inverse.data()[token * heads + head] = kernels.rms_norm(x, weight.data(), eps, dim, x);
      kernels.rotate(pass.rope.cos(position), pass.rope.sin(position), pass.rope.half(), false, x);
    }
    cells.write(cell, row + queries, row + queries + keys);
  };
  for_parts(pass.batch.tokens(), rows_per_part(qkv), pass.parallel, [&](int64_t from, int64_t to) {
    for (int64_t token = from; token < to; ++token) finish(token);
  });
}

void DecoderLayer::compute(const LayerPass& pass, const float* x, KvLayer& cells, LayerActivations& a) const {
  const LmShape& shape = pass.shape;
  const LmKernels& kernels = lm_kernels();
  const int64_t tokens = pass.batch.tokens(), hidden = shape.hidden, qkv = shape.qkv_width();
  const int64_t width = shape.intermediate;
  LayerScratch& s = pass.scratch;
  a.inverse.resize(tokens);
  a.post_inverse.resize(tokens);
  a.qkv.resize(tokens * qkv);
  a.attended.resize(tokens * shape.query_width());
  a.middle.resize(tokens * hidden);
  a.gate_up.resize(tokens * 2 * width);
  s.normed.resize(tokens * hidden);
  if (shape.qk_norm) {
    a.unrotated.resize(tokens * (qkv - shape.kv_width()));
    a.head_inverse.resize(tokens * (shape.heads + shape.kv_heads));
  }
  norm_rows(shape, x, weights_.input_norm, tokens, a.inverse.data(), s.normed.data(), pass.parallel);
  const MatrixView normed{s.normed.data(), tokens, hidden, hidden};
  const auto adapt = [&](LmLinear linear, const MatrixView& in, float* out, int64_t stride) {
    adapter(linear).add(in, out, stride, s.lora, pass.parallel);
  };
  multiply_packed(normed, packed(pass, LayerProduct::qkv), a.qkv.data(), qkv, pass.parallel);
  adapt(LmLinear::query, normed, a.qkv.data(), qkv);
  adapt(LmLinear::key, normed, a.qkv.data() + shape.query_width(), qkv);
  adapt(LmLinear::value, normed, a.qkv.data() + shape.query_width() + shape.kv_width(), qkv);
  finish_heads(pass, cells, a);
  attend(shape, pass.batch.sequences, a.qkv.data(), qkv, cells, a.attended.data(), a.attention, pass.parallel);
  const MatrixView attended{a.attended.data(), tokens, shape.query_width(), shape.query_width()};
  multiply_packed(attended, packed(pass, LayerProduct::output), a.middle.data(), hidden, pass.parallel);
  adapt(LmLinear::output, attended, a.middle.data(), hidden);
  for_parts(tokens, rows_per_part(hidden), pass.parallel, [&](int64_t from, int64_t to) {
    kernels.add(x + from * hidden, (to - from) * hidden, a.middle.data() + from * hidden);
  });
  norm_rows(shape, a.middle.data(), weights_.post_norm, tokens, a.post_inverse.data(), s.normed.data(), pass.parallel);
  multiply_packed(normed, packed(pass, LayerProduct::gate_up), a.gate_up.data(), 2 * width, pass.parallel);
  adapt(LmLinear::gate, normed, a.gate_up.data(), 2 * width);
  adapt(LmLinear::up, normed, a.gate_up.data() + width, 2 * width);
}

void DecoderLayer::finish(const LayerPass& pass, const LayerActivations& a, float* out) const {
  const LmKernels& kernels = lm_kernels();
  const int64_t tokens = pass.batch.tokens(), hidden = pass.shape.hidden, width = pass.shape.intermediate;
  FloatBuffer& activation = pass.scratch.activation;
  activation.resize(tokens * width);
  for_parts(tokens, rows_per_part(width), pass.parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const float* gate = a.gate_up.data() + i * 2 * width;
      kernels.swiglu(gate, gate + width, width, activation.data() + i * width);
    }
  });
  const MatrixView inputs{activation.data(), tokens, width, width};
  multiply_packed(inputs, packed(pass, LayerProduct::down), out, hidden, pass.parallel);
  adapter(LmLinear::down).add(inputs, out, hidden, pass.scratch.lora, pass.parallel);
  for_parts(tokens, rows_per_part(hidden), pass.parallel, [&](int64_t from, int64_t to) {
    kernels.add(a.middle.data() + from * hidden, (to - from) * hidden, out + from * hidden);
  });
}

}  // namespace troupe
