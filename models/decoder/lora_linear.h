#pragma once
// LoraLinear: the adapter of one linear layer, forward and backward (models/decoder/lora.h). Owned by a DecoderLayer;
// one thread at a time.

#include <cstdint>
#include <span>

#include "models/decoder/decoder_tensors.h"
#include "models/decoder/matrix_product.h"

namespace troupe {

// Memory that all adapters share.
struct LoraScratch {
  FloatBuffer low;    // [P, rank]: scale x A^T
  FloatBuffer d_low;  // [P, rank]: scale times the gradient of x A^T
};

class LoraLinear {
 public:
  // Packs the matrices, which stay in use until the next load(). Empty tensors: there is no adapter, and every other
  // function does nothing. inputs: of the linear layer.
  void load(const LoraTensors<const float>& tensors, int64_t inputs, ParallelFor& parallel);

  // y += scale (x A^T) B^T. Each number continues its chain of fused multiply-adds, so its bits do not depend on the
  // other rows. y: [rows, outputs], rows y_stride apart.
  void add(const MatrixView& x, float* y, int64_t y_stride, LoraScratch& scratch, ParallelFor& parallel) const;

  // dx += the adapter's part of the gradient of x. dx: [rows, inputs], dense.
  void add_input_gradient(const MatrixView& dy, float* dx, LoraScratch& scratch, ParallelFor& parallel) const;
  // Adds the gradients of A and B. Computes scale dy B again, so that nothing is kept between the two calls.
  void add_weight_gradients(const MatrixView& dy, const MatrixView& x, const LoraTensors<float>& gradients,
                            LoraScratch& scratch, ParallelFor& parallel) const;

 private:
  void compute_low(const MatrixView& x, LoraScratch& scratch, ParallelFor& parallel) const;
  void compute_d_low(const MatrixView& dy, LoraScratch& scratch, ParallelFor& parallel) const;

  LoraTensors<const float> tensors_;
  int64_t inputs_ = 0, outputs_ = 0, rank_ = 0;
  PackedWeights a_, b_;
};

}  // namespace troupe
