#include "algorithms/scan_kernel.h"

namespace troupe {

const ScanKernels* scan_kernels_sse2() { return &kKernels; }

}  // namespace troupe
