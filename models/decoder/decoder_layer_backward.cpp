#include <algorithm>

#include "models/decoder/decoder_layer.h"
#include "models/decoder/norm_rows.h"

namespace troupe {
namespace {

// sums += the rows of x, in their order. x: [rows, sums.size()], rows `stride` apart.
void add_rows(const float* x, int64_t stride, int64_t rows, std::span<float> sums, ParallelFor& parallel) {
  if (sums.empty()) return;
  const LmKernels& kernels = lm_kernels();
  for_parts(static_cast<int64_t>(sums.size()), columns_per_part(rows), parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = 0; i < rows; ++i) kernels.add(x + i * stride + from, to - from, sums.data() + from);
  });
}

// Adds the gradient of a matrix, unless the matrix is frozen.
void add_weight_gradient(const MatrixView& dy, const MatrixView& x, std::span<float> gradient, ParallelFor& parallel) {
  if (!gradient.empty()) add_outer_products(dy, x, gradient.data(), parallel);
}

}  // namespace

MatrixView DecoderLayer::rows_of(const LayerPass& pass, std::span<const float> loaded, const LinearSize& size,
                                 LayerProduct product, int64_t first) const {
  if (!loaded.empty()) return {loaded.data(), size.outputs, size.inputs, size.inputs};
  FloatBuffer& rows = pass.scratch.rows;
  rows.resize(size.outputs * size.inputs);
  packed(pass, product).unpack(first, size.outputs, rows.data(), pass.parallel);
  return {rows.data(), size.outputs, size.inputs, size.inputs};
}

// d becomes the gradient of `middle`.
void DecoderLayer::backward_swiglu(const LayerPass& pass, const LayerActivations& a, float* d,
                                   const LayerTensors<float>& gradients) const {
  const LmShape& shape = pass.shape;
  const LmKernels& kernels = lm_kernels();
  const int64_t tokens = pass.batch.tokens(), hidden = shape.hidden, width = shape.intermediate;
  LayerScratch& s = pass.scratch;
  s.activation.resize(tokens * width);
  s.d_activation.resize(tokens * width);
  s.d_gate_up.resize(tokens * 2 * width);
  s.normed.resize(tokens * hidden);
  s.d_normed.resize(tokens * hidden);
  const MatrixView d_view{d, tokens, hidden, hidden};
  multiply_rows(d_view, rows_of(pass, weights_.down, size_of(shape, LmLinear::down), LayerProduct::down),
                s.d_activation.data(), width, false, pass.parallel);
  adapter(LmLinear::down).add_input_gradient(d_view, s.d_activation.data(), s.lora, pass.parallel);
  for_parts(tokens, rows_per_part(width), pass.parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const float *gate = a.gate_up.data() + i * 2 * width, *up = gate + width;
      float* d_gate = s.d_gate_up.data() + i * 2 * width;
      kernels.swiglu(gate, up, width, s.activation.data() + i * width);
      kernels.swiglu_backward(gate, up, s.d_activation.data() + i * width, width, d_gate, d_gate + width);
    }
  });
  const auto add_gradients = [&](LmLinear linear, const MatrixView& dy, const MatrixView& x, std::span<float> own) {
    add_weight_gradient(dy, x, own, pass.parallel);
    adapter(linear).add_weight_gradients(dy, x, gradients.adapter(linear), s.lora, pass.parallel);
  };
  add_gradients(LmLinear::down, d_view, {s.activation.data(), tokens, width, width}, gradients.down);
  norm_rows_again(shape, a.middle.data(), weights_.post_norm, tokens, a.post_inverse.data(), s.normed.data(),
                  pass.parallel);
  const MatrixView normed{s.normed.data(), tokens, hidden, hidden};
  const MatrixView d_gate{s.d_gate_up.data(), tokens, width, 2 * width};
  const MatrixView d_up{s.d_gate_up.data() + width, tokens, width, 2 * width};
  add_gradients(LmLinear::gate, d_gate, normed, gradients.gate);
  add_gradients(LmLinear::up, d_up, normed, gradients.up);
  multiply_rows(d_gate, rows_of(pass, weights_.gate, size_of(shape, LmLinear::gate), LayerProduct::gate_up),
                s.d_normed.data(), hidden, false, pass.parallel);
  multiply_rows(d_up, rows_of(pass, weights_.up, size_of(shape, LmLinear::up), LayerProduct::gate_up, width),
                s.d_normed.data(), hidden, true, pass.parallel);
  adapter(LmLinear::gate).add_input_gradient(d_gate, s.d_normed.data(), s.lora, pass.parallel);
  adapter(LmLinear::up).add_input_gradient(d_up, s.d_normed.data(), s.lora, pass.parallel);
  norm_rows_backward(shape, a.middle.data(), weights_.post_norm, a.post_inverse.data(), s.d_normed.data(), tokens, true,
                     d, gradients.post_norm, pass.parallel);
}

// Writes scratch.d_qkv, the gradients of rotated queries and keys and of values.
void DecoderLayer::backward_attention(const LayerPass& pass, const KvLayer& cells, const LayerActivations& a,
                                      const float* d, const LayerTensors<float>& gradients) const {
  const LmShape& shape = pass.shape;
  const int64_t tokens = pass.batch.tokens(), hidden = shape.hidden, width = shape.query_width();
  LayerScratch& s = pass.scratch;
  s.d_attended.resize(tokens * width);
  s.d_qkv.resize(tokens * shape.qkv_width());
  const MatrixView d_view{d, tokens, hidden, hidden};
  multiply_rows(d_view, rows_of(pass, weights_.output, size_of(shape, LmLinear::output), LayerProduct::output),
                s.d_attended.data(), width, false, pass.parallel);
  const MatrixView attended{a.attended.data(), tokens, width, width};
  adapter(LmLinear::output).add_input_gradient(d_view, s.d_attended.data(), s.lora, pass.parallel);
  add_weight_gradient(d_view, attended, gradients.output, pass.parallel);
  adapter(LmLinear::output)
      .add_weight_gradients(d_view, attended, gradients.adapter(LmLinear::output), s.lora, pass.parallel);
  attend_backward(shape, pass.batch.sequences, cells, a.attention,
                  {.queries = a.qkv.data(),
                   .query_stride = shape.qkv_width(),
                   .d_out = s.d_attended.data(),
                   .d_qkv = s.d_qkv.data()},
                  pass.parallel);
}

// Turns scratch.d_qkv into the gradients of the linear layers' outputs, and adds those of the norms of heads.
void DecoderLayer::backward_heads(const LayerPass& pass, const LayerActivations& a,
                                  const LayerTensors<float>& gradients) const {
  const LmShape& shape = pass.shape;
  const LmKernels& kernels = lm_kernels();
  const int64_t dim = shape.head_dim, heads = shape.heads + shape.kv_heads, qkv = shape.qkv_width();
  float* d_qkv = pass.scratch.d_qkv.data();
  const int64_t tokens = pass.batch.tokens();
  for_parts(tokens, rows_per_part(qkv), pass.parallel, [&](int64_t from, int64_t to) {
    for (int64_t token = from; token < to; ++token)
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t position = pass.places[static_cast<size_t>(token)].position;
        kernels.rotate(pass.rope.cos(position), pass.rope.sin(position), pass.rope.half(), true,
                       d_qkv + token * qkv + head * dim);
      }
  });
  if (!shape.qk_norm) return;
  const auto inputs = [&](int64_t token, int64_t head) { return a.unrotated.data() + (token * heads + head) * dim; };
  const auto inverse = [&](int64_t token, int64_t head) { return a.head_inverse.data()[token * heads + head]; };
  pass.parallel.run(gradients.query_norm.empty() ? 0 : 2, [&](int64_t keys) {
    const std::span<float> d_weight = keys == 1 ? gradients.key_norm : gradients.query_norm;
    for (int64_t token = 0; token < tokens; ++token)
      for (int64_t head = keys == 1 ? shape.heads : 0; head < (keys == 1 ? heads : shape.heads); ++head)
        kernels.rms_weight_backward(inputs(token, head), inverse(token, head), d_qkv + token * qkv + head * dim, dim,
                                    d_weight.data());
  });
  for_parts(tokens, rows_per_part(qkv), pass.parallel, [&](int64_t from, int64_t to) {
    for (int64_t token = from; token < to; ++token)
      for (int64_t head = 0; head < heads; ++head) {
        float* d = d_qkv + token * qkv + head * dim;
        const std::span<const float> weight = head < shape.heads ? weights_.query_norm : weights_.key_norm;
        kernels.rms_norm_backward(inputs(token, head), weight.data(), inverse(token, head), d, dim, false, d);
      }
  });
}

// d, the gradient of `middle`, becomes that of x.
void DecoderLayer::backward_inputs(const LayerPass& pass, const float* x, const LayerActivations& a, float* d,
                                   const LayerTensors<float>& gradients) const {
  const LmShape& shape = pass.shape;
  const int64_t tokens = pass.batch.tokens(), hidden = shape.hidden, qkv = shape.qkv_width();
  LayerScratch& s = pass.scratch;
  norm_rows_again(shape, x, weights_.input_norm, tokens, a.inverse.data(), s.normed.data(), pass.parallel);
  const MatrixView normed{s.normed.data(), tokens, hidden, hidden};
  struct Part {
    LmLinear linear;
    std::span<const float> weight;
    std::span<float> d_weight, d_bias;
    int64_t width;
  };
  const Part parts[] = {{LmLinear::query, weights_.query, gradients.query, gradients.query_bias, shape.query_width()},
                        {LmLinear::key, weights_.key, gradients.key, gradients.key_bias, shape.kv_width()},
                        {LmLinear::value, weights_.value, gradients.value, gradients.value_bias, shape.kv_width()}};
  const float* d_part = s.d_qkv.data();
  for (const Part& part : parts) {
    const MatrixView d_out{d_part, tokens, part.width, qkv};
    add_weight_gradient(d_out, normed, part.d_weight, pass.parallel);
    adapter(part.linear).add_weight_gradients(d_out, normed, gradients.adapter(part.linear), s.lora, pass.parallel);
    if (shape.qkv_bias) add_rows(d_part, qkv, tokens, part.d_bias, pass.parallel);
    multiply_rows(d_out,
                  rows_of(pass, part.weight, size_of(shape, part.linear), LayerProduct::qkv, d_part - s.d_qkv.data()),
                  s.d_normed.data(), hidden, /*added=*/&part != parts, pass.parallel);
    adapter(part.linear).add_input_gradient(d_out, s.d_normed.data(), s.lora, pass.parallel);
    d_part += part.width;
  }
  norm_rows_backward(shape, x, weights_.input_norm, a.inverse.data(), s.d_normed.data(), tokens, true, d,
                     gradients.input_norm, pass.parallel);
}

void DecoderLayer::backward(const LayerPass& pass, const float* x, const KvLayer& cells, const LayerActivations& a,
                            float* d, const LayerTensors<float>& gradients) const {
  backward_swiglu(pass, a, d, gradients);
  backward_attention(pass, cells, a, d, gradients);
  backward_heads(pass, a, gradients);
  backward_inputs(pass, x, a, d, gradients);
}

}  // namespace troupe
