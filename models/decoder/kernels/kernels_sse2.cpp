#include "models/decoder/kernels/all_kernels.h"

namespace troupe {
const LmKernels* lm_kernels_sse2() { return &kTable; }
}  // namespace troupe
