#include "algorithms/scan/scan.h"

#if defined(__AVX512F__)

#define TROUPE_SCAN_LANES 16
#include "algorithms/scan/scan_kernel.h"

namespace troupe {
const ScanKernels* scan_kernels_avx512() { return &kKernels; }
}  // namespace troupe

#else

namespace troupe {
const ScanKernels* scan_kernels_avx512() { return nullptr; }
}  // namespace troupe

#endif
