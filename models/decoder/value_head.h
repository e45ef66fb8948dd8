#pragma once
// The value head of a critic: one number from a decoder's hidden row. Plain functions; each call uses its ParallelFor
// alone. Results depend neither on threads, nor on how rows are divided among calls.

#include <cstdint>
#include <span>

#include "models/decoder/parallel_for.h"

namespace troupe {

// The parameters, or their gradients. V = weight . hidden + bias.
template <class T>
struct ValueHeadTensors {
  std::span<T> weight;  // [hidden]
  std::span<T> bias;    // [1]
};

// values[i] is that of row rows[i] of `hidden`. hidden: [P, width]; rows, values: [N].
void head_values(std::span<const float> hidden, std::span<const int64_t> rows,
                 const ValueHeadTensors<const float>& head, std::span<float> values, ParallelFor& parallel);

// Adds the gradients of the head, and of the hidden rows to `d_hidden`, unless that is empty. d_values: [N]; d_hidden:
// [P, width].
void head_values_backward(std::span<const float> hidden, std::span<const int64_t> rows,
                          const ValueHeadTensors<const float>& head, std::span<const float> d_values,
                          const ValueHeadTensors<float>& gradients, std::span<float> d_hidden, ParallelFor& parallel);

}  // namespace troupe
