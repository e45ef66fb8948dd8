#include "models/decoder/matrix_product.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {
namespace {

// Below this many multiplications, starting another thread's part takes longer than the part.
constexpr int64_t kSmallProduct = 1 << 17;
constexpr int64_t kTaskRows = 48;

// The rows or the columns of a product, cut into `parts` equal parts; columns at panels.
LmProduct part_of(const LmProduct& whole, bool by_rows, int64_t part, int64_t parts) {
  LmProduct result = whole;
  if (by_rows) {
    const int64_t from = part * whole.m / parts, to = (part + 1) * whole.m / parts;
    result.a += from * whole.a_row_stride;
    result.c += from * whole.c_stride;
    result.m = to - from;
    return result;
  }
  const int64_t panels = panels_of(whole.n);
  const int64_t from = part * panels / parts, to = (part + 1) * panels / parts;
  if (whole.panels != nullptr) {
    result.panels += from * whole.panel_stride;
  } else {
    result.rows += from * kPanel;
  }
  result.c += from * kPanel;
  result.n = std::min(whole.n, to * kPanel) - from * kPanel;
  return result;
}

void run_product(const LmProduct& product, ParallelFor& parallel) {
  if (product.m == 0 || product.n == 0) return;
  const LmKernels& kernels = lm_kernels();
  const int64_t threads = parallel.threads();
  if (threads == 1 || product.m * product.n * product.k < kSmallProduct)
    return kernels.product(product, product_scratch());
  const bool by_rows = product.m >= threads * kTaskRows;
  const int64_t parts = by_rows ? std::max(threads, product.m / 96) : std::min(panels_of(product.n), 2 * threads);
  parallel.run(parts,
               [&](int64_t part) { kernels.product(part_of(product, by_rows, part, parts), product_scratch()); });
}

}  // namespace

float* product_scratch() {
  thread_local FloatBuffer scratch(kProductScratch);
  return scratch.data();
}

void PackedWeights::pack(std::span<const std::span<const float>> matrices, int64_t inputs, ParallelFor& parallel) {
  std::vector<const float*> outputs;
  for (const std::span<const float> matrix : matrices) {
    TROUPE_CHECK(static_cast<int64_t>(matrix.size()) % inputs == 0, "elements", matrix.size(), "inputs", inputs);
    for (size_t row = 0; row < matrix.size(); row += static_cast<size_t>(inputs)) outputs.push_back(&matrix[row]);
  }
  inputs_ = inputs;
  outputs_ = static_cast<int64_t>(outputs.size());
  panels_.resize(padded(outputs_) * inputs);
  parallel.run(panels_of(outputs_), [&](int64_t panel) {
    float* to = panels_.data() + panel * inputs * kPanel;
    for (int64_t j = 0; j < kPanel; ++j) {
      const int64_t output = panel * kPanel + j;
      const float* from = output < outputs_ ? outputs[static_cast<size_t>(output)] : nullptr;
      for (int64_t k = 0; k < inputs; ++k) to[k * kPanel + j] = from != nullptr ? from[k] : 0.0f;
    }
  });
}

void PackedWeights::unpack(int64_t output, float* to) const {
  TROUPE_CHECK(output >= 0 && output < outputs_, output, outputs_);
  const float* from = panels_.data() + output / kPanel * inputs_ * kPanel + output % kPanel;
  for (int64_t k = 0; k < inputs_; ++k) to[k] = from[k * kPanel];
}

void PackedWeights::unpack(int64_t first, int64_t count, float* to, ParallelFor& parallel) const {
  TROUPE_CHECK(first >= 0 && first + count <= outputs_, first, count, outputs_);
  const int64_t first_panel = first / kPanel;
  parallel.run(count == 0 ? 0 : panels_of(first + count) - first_panel, [&](int64_t part) {
    const int64_t panel = first_panel + part, from_output = std::max(first, panel * kPanel);
    const int64_t outputs = std::min(first + count, (panel + 1) * kPanel) - from_output;
    const float* from = panels_.data() + panel * inputs_ * kPanel + from_output % kPanel;
    float* rows = to + (from_output - first) * inputs_;
    for (int64_t k = 0; k < inputs_; ++k)
      for (int64_t j = 0; j < outputs; ++j) rows[j * inputs_ + k] = from[k * kPanel + j];
  });
}

void multiply_packed(const MatrixView& x, const PackedWeights& weights, float* y, int64_t y_stride,
                     ParallelFor& parallel, bool added) {
  TROUPE_CHECK(x.columns == weights.inputs(), "columns", x.columns, "inputs", weights.inputs());
  run_product({.a = x.data,
               .a_row_stride = x.stride,
               .panels = weights.panels(),
               .panel_stride = weights.inputs() * kPanel,
               .m = x.rows,
               .n = weights.outputs(),
               .k = x.columns,
               .c = y,
               .c_stride = y_stride,
               .continued = added},
              parallel);
}

void multiply_rows(const MatrixView& dy, const MatrixView& w, float* dx, int64_t dx_stride, bool added,
                   ParallelFor& parallel) {
  TROUPE_CHECK(dy.columns == w.rows, "columns", dy.columns, "outputs", w.rows);
  run_product({.a = dy.data,
               .a_row_stride = dy.stride,
               .rows = w.data,
               .row_stride = w.stride,
               .m = dy.rows,
               .n = w.columns,
               .k = w.rows,
               .c = dx,
               .c_stride = dx_stride,
               .continued = added},
              parallel);
}

void add_outer_products(const MatrixView& dy, const MatrixView& x, float* dw, ParallelFor& parallel) {
  TROUPE_CHECK(dy.rows == x.rows, "rows", dy.rows, x.rows);
  run_product({.a = dy.data,
               .a_row_stride = 1,
               .a_k_stride = dy.stride,
               .rows = x.data,
               .row_stride = x.stride,
               .m = dy.columns,
               .n = x.columns,
               .k = x.rows,
               .c = dw,
               .c_stride = x.columns,
               .continued = true},
              parallel);
}

}  // namespace troupe
