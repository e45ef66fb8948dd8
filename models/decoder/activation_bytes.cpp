#include "models/decoder/activation_bytes.h"

#include <algorithm>
#include <array>

#include "models/decoder/kernels/kernel_table.h"

namespace troupe {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

int64_t kv_floats(const LmShape& shape) { return shape.kv_heads * (shape.head_dim + padded(shape.head_dim)); }

// LayerActivations.
int64_t layer_floats(const LmShape& shape) {
  const int64_t norms = 2, softmax = 2 * shape.heads, heads = shape.heads + shape.kv_heads;
  const int64_t of_head_norms = shape.qk_norm ? heads * (shape.head_dim + 1) : 0;
  return norms + of_head_norms + shape.qkv_width() + softmax + shape.query_width() + shape.hidden +
         2 * shape.intermediate;
}

// LayerScratch of a forward pass.
int64_t forward_scratch_floats(const LmShape& shape) { return shape.hidden + shape.intermediate; }

// That of a backward pass, and in the backward of attention the gradients of keys and values with copies of these.
int64_t backward_scratch_floats(const LmShape& shape) {
  return shape.hidden + shape.query_width() + shape.qkv_width() + 3 * shape.intermediate + 3 * shape.kv_width() +
         shape.kv_heads * padded(shape.head_dim);
}

// The products of a layer, packed (LayerProduct).
std::array<int64_t, 4> product_floats(const LmShape& shape) {
  return {padded(shape.qkv_width()) * shape.hidden, padded(shape.hidden) * shape.query_width(),
          padded(2 * shape.intermediate) * shape.hidden, padded(shape.hidden) * shape.intermediate};
}

int64_t output_floats(const LmShape& shape) { return padded(shape.vocabulary) * shape.hidden; }

}  // namespace

int64_t activation_bytes(const LmShape& shape, bool recompute) {
  const int64_t inputs = (shape.layers + 1) * shape.hidden + 1;
  const int64_t hidden_rows = 3 * shape.hidden;  // after the last norm, their gradient, and that of a layer's output
  const int64_t layers = recompute ? 1 : shape.layers;
  const int64_t scratch = forward_scratch_floats(shape) + backward_scratch_floats(shape);
  return kFloat * (inputs + hidden_rows + layers * (layer_floats(shape) + kv_floats(shape)) + scratch);
}

int64_t forward_bytes(const LmShape& shape) {
  const int64_t hidden_rows = 2 * shape.hidden + 1;  // of the layers, and after the last norm
  return kFloat * (hidden_rows + layer_floats(shape) + forward_scratch_floats(shape));
}

int64_t kv_bytes(const LmShape& shape) { return kFloat * shape.layers * kv_floats(shape); }

int64_t packed_bytes(const LmShape& shape) {
  int64_t floats = output_floats(shape);
  for (const int64_t product : product_floats(shape)) floats += shape.layers * product;
  for (const LmTensor& tensor : lm_tensors(shape))
    if (tensor.shape.rank() == 1) floats += tensor.shape.elements();
  if (!shape.tied_embeddings) floats += shape.vocabulary * shape.hidden;
  return kFloat * floats;
}

int64_t packed_in_pass_bytes(const LmShape& shape) {
  return kFloat * (output_floats(shape) + std::ranges::max(product_floats(shape)));
}

}  // namespace troupe
