#include "models/decoder/value_head.h"

#include "models/decoder/kernels/kernel_table.h"
#include "runtime/base/errors.h"

namespace troupe {

void head_values(std::span<const float> hidden, std::span<const int64_t> rows,
                 const ValueHeadTensors<const float>& head, std::span<float> values, ParallelFor& parallel) {
  const auto width = static_cast<int64_t>(head.weight.size());
  TROUPE_CHECK(values.size() == rows.size(), values.size(), rows.size());
  for (const int64_t row : rows)
    TROUPE_CHECK(row >= 0 && (row + 1) * width <= static_cast<int64_t>(hidden.size()), "row", row, "floats",
                 hidden.size());
  for_parts(static_cast<int64_t>(rows.size()), rows_per_part(width), parallel, [&](int64_t from, int64_t to) {
    for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i)
      values[i] = lm_kernels().dot(hidden.data() + rows[i] * width, head.weight.data(), width) + head.bias.front();
  });
}

void head_values_backward(std::span<const float> hidden, std::span<const int64_t> rows,
                          const ValueHeadTensors<const float>& head, std::span<const float> d_values,
                          const ValueHeadTensors<float>& gradients, std::span<float> d_hidden, ParallelFor& parallel) {
  const auto width = static_cast<int64_t>(head.weight.size()), count = static_cast<int64_t>(rows.size());
  TROUPE_CHECK(d_values.size() == rows.size(), d_values.size(), rows.size());
  TROUPE_CHECK(d_hidden.empty() || d_hidden.size() == hidden.size(), d_hidden.size(), hidden.size());
  const LmKernels& kernels = lm_kernels();
  for (const float d : d_values) gradients.bias.front() += d;
  // By columns, so that each number gets the rows in their order.
  for_parts(width, columns_per_part(count), parallel, [&](int64_t from, int64_t to) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t at = rows[i] * width + from;
      kernels.add_scaled(d_values[i], hidden.data() + at, to - from, gradients.weight.data() + from);
      if (!d_hidden.empty())
        kernels.add_scaled(d_values[i], head.weight.data() + from, to - from, d_hidden.data() + at);
    }
  });
}

}  // namespace troupe
