#pragma once
// Every kernel of LmKernels, as kTable. Included once per instruction set by kernels_sse2.cpp, kernels_avx2.cpp and
// kernels_avx512.cpp, each with its own TROUPE_LM_LANES.

#include "models/decoder/kernels/kernel_table.h"
#include "models/decoder/kernels/product_kernel.h"
#include "models/decoder/kernels/row_kernels.h"

namespace troupe {
namespace {

constexpr LmKernels kTable = {
    .product = product,
    .add = add,
    .add_scaled = add_scaled,
    .dot = dot,
    .rms_norm = rms_norm,
    .rms_apply = rms_apply,
    .rms_norm_backward = rms_norm_backward,
    .rms_weight_backward = rms_weight_backward,
    .rotate = rotate,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .exp_scores = exp_scores,
    .probabilities = probabilities,
    .scale = scale,
    .softmax_backward = softmax_backward,
};

}  // namespace
}  // namespace troupe
