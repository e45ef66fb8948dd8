#include "models/decoder/activation_bytes.h"

#include "models/decoder/kernels/kernel_table.h"

namespace troupe {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

int64_t kv_floats(const LmShape& shape) { return shape.kv_heads * (shape.head_dim + padded(shape.head_dim)); }

// LayerActivations, and the cells of the layer.
int64_t layer_floats(const LmShape& shape) {
  const int64_t norms = 2, softmax = 2 * shape.heads, heads = shape.heads + shape.kv_heads;
  const int64_t of_head_norms = shape.qk_norm ? heads * (shape.head_dim + 1) : 0;
  return norms + of_head_norms + shape.qkv_width() + softmax + shape.query_width() + shape.hidden +
         2 * shape.intermediate + kv_floats(shape);
}

// LayerScratch, and in the backward of attention the gradients of keys and values with copies of these.
int64_t scratch_floats(const LmShape& shape) {
  const int64_t of_forward = shape.hidden + shape.intermediate;
  const int64_t of_backward = shape.hidden + shape.query_width() + shape.qkv_width() + 3 * shape.intermediate;
  return of_forward + of_backward + 3 * shape.kv_width() + shape.kv_heads * padded(shape.head_dim);
}

}  // namespace

int64_t activation_bytes(const LmShape& shape, bool recompute) {
  const int64_t inputs = (shape.layers + 1) * shape.hidden + 1;
  const int64_t hidden_rows = 3 * shape.hidden;  // after the last norm, their gradient, and that of a layer's output
  const int64_t layers = recompute ? 1 : shape.layers;
  return kFloat * (inputs + hidden_rows + layers * layer_floats(shape) + scratch_floats(shape));
}

int64_t kv_bytes(const LmShape& shape) { return kFloat * shape.layers * kv_floats(shape); }

}  // namespace troupe
