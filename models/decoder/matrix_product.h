#pragma once
// Matrix products of the language models, divided among threads. Every output is one chain of fused multiply-adds over
// the inner dimension in increasing order, so its bits depend neither on threads, instruction set and packing, nor on
// how many other rows and columns are computed with it. Plain functions; each call uses its ParallelFor alone.

#include <cstdint>
#include <span>
#include <vector>

#include "models/decoder/buffer.h"
#include "models/decoder/kernels/kernel_table.h"
#include "models/decoder/parallel_for.h"

namespace troupe {

// A matrix in memory, row-major.
struct MatrixView {
  const float* data;
  int64_t rows, columns;
  int64_t stride;  // floats from row to row
};

// The weights of one or several linear layers with the same inputs, stored for y = x W^T: kPanel outputs side by side.
class PackedWeights {
 public:
  PackedWeights() = default;

  // Packs matrices [outputs, inputs], dense, one below the other. All have the same number of columns.
  void pack(std::span<const std::span<const float>> matrices, int64_t inputs, ParallelFor& parallel);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }  // of all matrices together
  const float* panels() const { return panels_.data(); }
  // The weights of one output. to: [inputs].
  void unpack(int64_t output, float* to) const;
  // Those of outputs [first, first + count). to: [count, inputs].
  void unpack(int64_t first, int64_t count, float* to, ParallelFor& parallel) const;

 private:
  FloatBuffer panels_;  // [panels_of(outputs), inputs, kPanel]
  int64_t inputs_ = 0, outputs_ = 0;
};

// y = x W^T, or y += x W^T, which continues the chain of each number. x: [rows, inputs]; y: [rows, outputs], rows
// y_stride apart.
void multiply_packed(const MatrixView& x, const PackedWeights& weights, float* y, int64_t y_stride,
                     ParallelFor& parallel, bool added = false);

// dx = dy W, or dx += dy W. dy: [rows, outputs]; w: [outputs, inputs]; dx: [rows, inputs], rows dx_stride apart.
void multiply_rows(const MatrixView& dy, const MatrixView& w, float* dx, int64_t dx_stride, bool added,
                   ParallelFor& parallel);

// dw += dy^T x, the rows in their order. dy: [rows, outputs]; x: [rows, inputs]; dw: [outputs, inputs], dense. Two
// calls with parts of the rows give the bits of one call with all of them.
void add_outer_products(const MatrixView& dy, const MatrixView& x, float* dw, ParallelFor& parallel);

// Memory for LmKernels::product() that belongs to the calling thread.
float* product_scratch();

}  // namespace troupe
