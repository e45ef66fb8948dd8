#include "models/decoder/kernels/kernel_table.h"

#if defined(__AVX2__)

#define TROUPE_LM_LANES 8
#include "models/decoder/kernels/all_kernels.h"

namespace troupe {
const LmKernels* lm_kernels_avx2() { return &kTable; }
}  // namespace troupe

#else

namespace troupe {
const LmKernels* lm_kernels_avx2() { return nullptr; }
}  // namespace troupe

#endif
