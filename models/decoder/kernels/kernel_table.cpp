#include "models/decoder/kernels/kernel_table.h"

#include "algorithms/common/cpu.h"

namespace troupe {

const LmKernels& lm_kernels() {
  const Isa isa = current_isa();
  const LmKernels* table = isa == Isa::avx512 ? lm_kernels_avx512() : isa == Isa::avx2 ? lm_kernels_avx2() : nullptr;
  return table != nullptr ? *table : *lm_kernels_sse2();
}

}  // namespace troupe
