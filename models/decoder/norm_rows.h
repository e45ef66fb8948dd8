#pragma once
// RMS normalisation of rows (arXiv:1910.07467), forward and backward, on several threads. Plain functions; each call
// uses its ParallelFor alone.

#include <cstdint>
#include <span>

#include "models/decoder/lm_shape.h"
#include "models/decoder/parallel_for.h"

namespace troupe {

// out[i] = norm(x[i]) and inverse[i] for P rows of `hidden`; norm_rows_again() by the inverses that are there.
void norm_rows(const LmShape& shape, const float* x, std::span<const float> weight, int64_t rows, float* inverse,
               float* out, ParallelFor& parallel);
void norm_rows_again(const LmShape& shape, const float* x, std::span<const float> weight, int64_t rows,
                     const float* inverse, float* out, ParallelFor& parallel);
// d_weight += the gradient, and d_x = the gradient or added to it, both for P rows of `hidden`.
void norm_rows_backward(const LmShape& shape, const float* x, std::span<const float> weight, const float* inverse,
                        const float* d_out, int64_t rows, bool added, float* d_x, std::span<float> d_weight,
                        ParallelFor& parallel);

}  // namespace troupe
