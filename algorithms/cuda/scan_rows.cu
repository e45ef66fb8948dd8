#include "algorithms/cuda/scan_rows.h"

#include "algorithms/cuda/choose_kernel.h"
#include "algorithms/cuda/device_thread.cuh"
#include "algorithms/cuda/launch.cuh"

namespace troupe::cuda {

namespace {

extern __shared__ __align__(16) unsigned char shared_memory[];

template <class Rule, StepMode kMode, int kWarps>
__global__ void __launch_bounds__(kWarps* kLanes) rows(const __grid_constant__ DeviceScan k) {
  DeviceThread thread;
  scan_row<Rule, kMode, kWarps>(thread, k, shared_memory);
}

template <class Rule, StepMode kMode>
__global__ void __launch_bounds__(kBlockWarps* kLanes) row_tiles(const __grid_constant__ DeviceScan k) {
  DeviceThread thread;
  scan_row_tile<Rule, kMode>(thread, k, shared_memory);
}

}  // namespace

Kernel row_kernel(ScanRule rule, const ScanPlan& plan) {
  return choose_kernel(rule, plan.mode, [&]<class Rule, StepMode kMode>() -> Kernel {
    if (plan.kind == ScanKind::warp_rows) return rows<Rule, kMode, 1>;
    if (plan.kind == ScanKind::block_rows) return rows<Rule, kMode, kBlockWarps>;
    return row_tiles<Rule, kMode>;
  });
}

}  // namespace troupe::cuda
