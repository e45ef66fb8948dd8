#pragma once
// Causal attention with shared key heads (arXiv:2305.13245) over the cells of a batch's sequences. A query takes two
// passes over its keys in the order prefix, own range: scores and their maximum, then the weighted sum of the values as
// one chain of fused multiply-adds. Its bits do not depend on what else is in the batch, nor on which cells it uses.
// Plain functions; each call uses its ParallelFor alone.

#include <cstdint>
#include <span>

#include "models/decoder/batch.h"
#include "models/decoder/kv_store.h"
#include "models/decoder/matrix_product.h"
#include "models/decoder/parallel_for.h"

namespace troupe {

// What the backward pass needs of each query's softmax: exp(score - max) / sum is the probability.
struct AttentionState {
  FloatBuffer max, sum;  // [P, heads]
};

// queries: [P, heads * head_dim], rows query_stride apart, rotated. The cells of the batch hold its keys and values.
// out: [P, heads * head_dim], dense.
void attend(const LmShape& shape, std::span<const LmSequence> sequences, const float* queries, int64_t query_stride,
            const KvLayer& cells, float* out, AttentionState& state, ParallelFor& parallel);

// The inputs of attend() again, its results, and the gradient of `out`.
struct AttentionGradient {
  const float* queries;
  int64_t query_stride;
  const float* d_out;  // [P, heads * head_dim]
  // [P, (heads + 2 kv_heads) * head_dim]: gradients of queries, keys and values side by side, written.
  float* d_qkv;
};

// For a batch whose token i has cell i. The gradients of a cell are added up in an order that does not depend on
// threads.
void attend_backward(const LmShape& shape, std::span<const LmSequence> sequences, const KvLayer& cells,
                     const AttentionState& state, const AttentionGradient& gradient, ParallelFor& parallel);

}  // namespace troupe
