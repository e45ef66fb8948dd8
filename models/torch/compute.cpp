// How LibTorch computes in this process: threads, reproducibility, GPUs.

#include <cstdlib>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "models/torch/compute.h"

namespace troupe {

int gpu_count() { return at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0; }

void set_compute_threads(int threads) {
  // Otherwise the first operation of this thread would replace its number by the one that any thread has set last.
  // Only LibTorch's own call of lazy_init_num_threads() counts: the function is inline.
  static_cast<void>(at::get_num_threads());
  at::set_num_threads(threads);
}

void compute_reproducibly() {
  // MKL chooses its kernels by how operands are aligned, unless this is set before its first call. A value set by the
  // user stays. NOLINTNEXTLINE(concurrency-mt-unsafe): called before there are other threads
  setenv("MKL_CBWR", "AUTO", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::set_num_threads(1);
}

}  // namespace troupe
