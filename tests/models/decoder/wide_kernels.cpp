#include "tests/models/decoder/wide_kernels.h"

#if defined(__AVX2__)

#define TROUPE_LM_LANES 16
#include "models/decoder/kernels/all_kernels.h"

namespace troupe::test {
const LmKernels* lm_kernels_wide() { return &kTable; }
}  // namespace troupe::test

#else

namespace troupe::test {
const LmKernels* lm_kernels_wide() { return nullptr; }
}  // namespace troupe::test

#endif
