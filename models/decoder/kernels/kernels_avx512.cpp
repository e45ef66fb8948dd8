#include "models/decoder/kernels/kernel_table.h"

#if defined(__AVX512F__)

#define TROUPE_LM_LANES 16
#include "models/decoder/kernels/all_kernels.h"

namespace troupe {
const LmKernels* lm_kernels_avx512() { return &kTable; }
}  // namespace troupe

#else

namespace troupe {
const LmKernels* lm_kernels_avx512() { return nullptr; }
}  // namespace troupe

#endif
