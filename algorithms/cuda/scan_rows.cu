#include "algorithms/cuda/scan_rows.h"

#include "algorithms/cuda/choose_kernel.h"
#include "algorithms/cuda/device_thread.cuh"
#include "algorithms/cuda/launch.cuh"

namespace troupe::cuda {

namespace {

extern __shared__ __align__(16) unsigned char shared_memory[];

// Blocks per multiprocessor: more of them hide the latency of memory, but leave fewer registers to each.
template <StepMode kMode>
inline constexpr int kRowBlocks = kMode == StepMode::plain ? 9
                                  : kArrays<kMode>         ? 5
                                                           : 7;
template <StepMode kMode>
inline constexpr int kTileBlocks = kMode == StepMode::flags ? 4 : 3;

template <class Rule, StepMode kMode>
__global__ void __launch_bounds__(kRowWarps* kLanes, kRowBlocks<kMode>)
    warp_rows(const __grid_constant__ DeviceScan k) {
  DeviceThread thread;
  scan_warp_row<Rule, kMode>(thread, k);
}

template <class Rule, StepMode kMode>
__global__ void __launch_bounds__(kBlockWarps* kLanes, kTileBlocks<kMode>)
    row_tiles(const __grid_constant__ DeviceScan k) {
  DeviceThread thread;
  scan_row_tile<Rule, kMode>(thread, k, shared_memory);
}

}  // namespace

Kernel row_kernel(ScanRule rule, const ScanPlan& plan) {
  return choose_kernel(rule, plan.mode, [&]<class Rule, StepMode kMode>() -> Kernel {
    if constexpr (!kSkips<kMode>)
      if (plan.kind == ScanKind::warp_rows) return warp_rows<Rule, kMode>;
    return row_tiles<Rule, kMode>;
  });
}

}  // namespace troupe::cuda
