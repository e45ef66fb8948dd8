#include "models/decoder/norm_rows.h"

#include "models/decoder/kernels/kernel_table.h"

namespace troupe {

void norm_rows(const LmShape& shape, const float* x, std::span<const float> weight, int64_t rows, float* inverse,
               float* out, ParallelFor& parallel) {
  const LmKernels& kernels = lm_kernels();
  const int64_t width = shape.hidden;
  const auto eps = static_cast<float>(shape.rms_eps);
  for_parts(rows, rows_per_part(width), parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      inverse[i] = kernels.rms_norm(x + i * width, weight.data(), eps, width, out + i * width);
  });
}

void norm_rows_again(const LmShape& shape, const float* x, std::span<const float> weight, int64_t rows,
                     const float* inverse, float* out, ParallelFor& parallel) {
  const LmKernels& kernels = lm_kernels();
  const int64_t width = shape.hidden;
  for_parts(rows, rows_per_part(width), parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      kernels.rms_apply(x + i * width, weight.data(), inverse[i], width, out + i * width);
  });
}

void norm_rows_backward(const LmShape& shape, const float* x, std::span<const float> weight, const float* inverse,
                        const float* d_out, int64_t rows, bool added, float* d_x, std::span<float> d_weight,
                        ParallelFor& parallel) {
  const LmKernels& kernels = lm_kernels();
  const int64_t width = shape.hidden;
  for_parts(d_weight.empty() ? 0 : width, columns_per_part(rows), parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = 0; i < rows; ++i)
      kernels.rms_weight_backward(x + i * width + from, inverse[i], d_out + i * width + from, to - from,
                                  d_weight.data() + from);
  });
  for_parts(rows, rows_per_part(width), parallel, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      kernels.rms_norm_backward(x + i * width, weight.data(), inverse[i], d_out + i * width, width, added,
                                d_x + i * width);
  });
}

}  // namespace troupe
