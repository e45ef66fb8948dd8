#include "models/decoder/lora_linear.h"

#include "models/decoder/kernels/kernel_table.h"

namespace troupe {

void LoraLinear::load(const LoraTensors<const float>& tensors, int64_t inputs, ParallelFor& parallel) {
  tensors_ = tensors;
  inputs_ = inputs;
  rank_ = static_cast<int64_t>(tensors.a.size()) / inputs;
  if (rank_ == 0) return;
  outputs_ = static_cast<int64_t>(tensors.b.size()) / rank_;
  a_.pack({&tensors_.a, 1}, inputs, parallel);
  b_.pack({&tensors_.b, 1}, rank_, parallel);
}

void LoraLinear::compute_low(const MatrixView& x, LoraScratch& scratch, ParallelFor& parallel) const {
  scratch.low.resize(x.rows * rank_);
  float* low = scratch.low.data();
  multiply_packed(x, a_, low, rank_, parallel);
  lm_kernels().scale(low, tensors_.scale, x.rows * rank_, low);
}

void LoraLinear::compute_d_low(const MatrixView& dy, LoraScratch& scratch, ParallelFor& parallel) const {
  scratch.d_low.resize(dy.rows * rank_);
  float* d_low = scratch.d_low.data();
  multiply_rows(dy, {tensors_.b.data(), outputs_, rank_, rank_}, d_low, rank_, false, parallel);
  lm_kernels().scale(d_low, tensors_.scale, dy.rows * rank_, d_low);
}

void LoraLinear::add(const MatrixView& x, float* y, int64_t y_stride, LoraScratch& scratch,
                     ParallelFor& parallel) const {
  if (rank_ == 0) return;
  compute_low(x, scratch, parallel);
  multiply_packed({scratch.low.data(), x.rows, rank_, rank_}, b_, y, y_stride, parallel, /*added=*/true);
}

void LoraLinear::add_input_gradient(const MatrixView& dy, float* dx, LoraScratch& scratch,
                                    ParallelFor& parallel) const {
  if (rank_ == 0) return;
  compute_d_low(dy, scratch, parallel);
  multiply_rows({scratch.d_low.data(), dy.rows, rank_, rank_}, {tensors_.a.data(), rank_, inputs_, inputs_}, dx,
                inputs_, true, parallel);
}

void LoraLinear::add_weight_gradients(const MatrixView& dy, const MatrixView& x, const LoraTensors<float>& gradients,
                                      LoraScratch& scratch, ParallelFor& parallel) const {
  if (rank_ == 0 || gradients.a.empty()) return;
  compute_low(x, scratch, parallel);
  add_outer_products(dy, {scratch.low.data(), x.rows, rank_, rank_}, gradients.b.data(), parallel);
  compute_d_low(dy, scratch, parallel);
  add_outer_products({scratch.d_low.data(), dy.rows, rank_, rank_}, x, gradients.a.data(), parallel);
}

}  // namespace troupe
