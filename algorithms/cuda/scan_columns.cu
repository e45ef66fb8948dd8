#include "algorithms/cuda/scan_columns.h"

#include "algorithms/cuda/choose_kernel.h"
#include "algorithms/cuda/device_thread.cuh"
#include "algorithms/cuda/launch.cuh"

namespace troupe::cuda {

namespace {

extern __shared__ __align__(16) unsigned char shared_memory[];

// Blocks per multiprocessor: more of them hide the latency of memory, but leave fewer registers to each.
template <StepMode kMode>
inline constexpr int kColumnBlocks = kMode == StepMode::plain ? 4
                                     : kArrays<kMode>         ? 2
                                                              : 3;
template <StepMode kMode>
inline constexpr int kTileBlocks = kMode == StepMode::plain ? 4
                                   : kArrays<kMode>         ? 3
                                                            : 2;

template <class Rule, StepMode kMode>
__global__ void __launch_bounds__(kBlockWarps* kLanes, kColumnBlocks<kMode>)
    columns(const __grid_constant__ DeviceScan k) {
  DeviceThread thread;
  scan_column<Rule, kMode>(thread, k);
}

template <class Rule, StepMode kMode>
__global__ void __launch_bounds__(kBlockWarps* kLanes, kTileBlocks<kMode>)
    column_tiles(const __grid_constant__ DeviceScan k) {
  DeviceThread thread;
  scan_column_tile<Rule, kMode>(thread, k, shared_memory);
}

}  // namespace

Kernel column_kernel(ScanRule rule, const ScanPlan& plan) {
  return choose_kernel(rule, plan.mode, [&]<class Rule, StepMode kMode>() -> Kernel {
    if constexpr (!kSkips<kMode>)
      if (plan.kind == ScanKind::columns) return columns<Rule, kMode>;
    return column_tiles<Rule, kMode>;
  });
}

}  // namespace troupe::cuda
