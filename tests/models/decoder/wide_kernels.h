#pragma once
// The kernels of models/lm with the 16 lanes and the tiles of AVX-512, compiled for AVX2.

#include "models/decoder/kernels/kernel_table.h"

namespace troupe::test {

// nullptr where the compiler does not support AVX2.
const LmKernels* lm_kernels_wide();

}  // namespace troupe::test
