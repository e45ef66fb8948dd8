#include "algorithms/scan/scan_kernel.h"

namespace troupe {

const ScanKernels* scan_kernels_sse2() { return &kKernels; }

}  // namespace troupe
