#include "algorithms/scan/scan.h"

#if defined(__AVX2__) && defined(__FMA__)

#define TROUPE_SCAN_LANES 8
#include "algorithms/scan/scan_kernel.h"

namespace troupe {
const ScanKernels* scan_kernels_avx2() { return &kKernels; }
}  // namespace troupe

#else

namespace troupe {
const ScanKernels* scan_kernels_avx2() { return nullptr; }
}  // namespace troupe

#endif
