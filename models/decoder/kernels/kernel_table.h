#pragma once
// The kernels of models/lm that are compiled once per instruction set, as a table of functions. Every function computes
// the same bits in every table: products are chains of fused multiply-adds over k in increasing order, sums over a row
// run in 16 fixed lanes, and nothing else is contracted. Pure functions on one thread; any thread. Internal to
// models/lm.

#include <cstdint>

namespace troupe {

// Outputs of a product are computed in panels of this many adjacent columns, on every instruction set.
inline constexpr int64_t kPanel = 16;
// Always inlined, so that the linker cannot take the build of one instruction set for another.
[[gnu::always_inline]] constexpr int64_t panels_of(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
[[gnu::always_inline]] constexpr int64_t padded(int64_t columns) { return panels_of(columns) * kPanel; }

// C[i, j] = sum over k of A[i, k] B[k, j] as one chain of fused multiply-adds over k in increasing order, from 0 or, if
// `continued`, from the value that C[i, j] has. The bits of an output therefore do not depend on the other sizes.
struct LmProduct {
  const float* a = nullptr;  // [m, k]
  int64_t a_row_stride = 0, a_k_stride = 1;
  // B: either panels, so that B[k, 16 p + j] = panels[p * panel_stride + 16 k + j], padded to whole panels; or rows, so
  // that B[k, j] = rows[k * row_stride + j].
  const float* panels = nullptr;
  int64_t panel_stride = 0;
  const float* rows = nullptr;
  int64_t row_stride = 0;
  int64_t m = 0, n = 0, k = 0;
  float* c = nullptr;  // [m, n]
  int64_t c_stride = 0;
  bool continued = false;
};

// Floats of scratch memory that product() needs.
inline constexpr int64_t kProductScratch = 98 * 256 + 32 * kPanel * 256;

struct LmKernels {
  // scratch: [kProductScratch] float32, 64-byte aligned.
  void (*product)(const LmProduct& product, float* scratch);

  // y += x; y = a x + y with one rounding; y += a x with one rounding per element.
  void (*add)(const float* x, int64_t count, float* y);
  void (*add_scaled)(float a, const float* x, int64_t count, float* y);
  // Sum of x y.
  float (*dot)(const float* x, const float* y, int64_t count);

  // RMS normalisation of a row, arXiv:1910.07467: y = weight * (x * inverse), inverse = 1 / sqrt(mean(x^2) + eps).
  // Returns inverse. y may be x.
  float (*rms_norm)(const float* x, const float* weight, float eps, int64_t count, float* y);
  // The same, with the inverse that rms_norm() returned.
  void (*rms_apply)(const float* x, const float* weight, float inverse, int64_t count, float* y);
  // dx = the gradient of x, or added to it. dx may be dy unless it is added to.
  void (*rms_norm_backward)(const float* x, const float* weight, float inverse, const float* dy, int64_t count,
                            bool added, float* dx);
  // d_weight += dy * (x * inverse).
  void (*rms_weight_backward)(const float* x, float inverse, const float* dy, int64_t count, float* d_weight);

  // Rotary embedding of the pairs (x[i], x[i + half]): by the angle, or by its negative (the gradient).
  void (*rotate)(const float* cos, const float* sin, int64_t half, bool backward, float* x);

  // out = silu(gate) * up, and the gradients of gate and up.
  void (*swiglu)(const float* gate, const float* up, int64_t count, float* out);
  void (*swiglu_backward)(const float* gate, const float* up, const float* d_out, int64_t count, float* d_gate,
                          float* d_up);

  // scores = exp(scores - max); returns max and the sum of the results. count is at least 1.
  void (*exp_scores)(float* scores, int64_t count, float* max, float* sum);
  // p = exp(scores - max) * inverse_sum.
  void (*probabilities)(const float* scores, float max, float inverse_sum, int64_t count, float* p);
  // out = x * factor.
  void (*scale)(const float* x, float factor, int64_t count, float* out);
  // d_scores = p * (dp - shift) * factor. d_scores may be dp.
  void (*softmax_backward)(const float* p, const float* dp, float shift, float factor, int64_t count, float* d_scores);
};

// The tables; nullptr where the compiler does not support the instruction set.
const LmKernels* lm_kernels_sse2();
const LmKernels* lm_kernels_avx2();
const LmKernels* lm_kernels_avx512();
// The table for current_isa() (algorithms/common/cpu.h).
const LmKernels& lm_kernels();

}  // namespace troupe
