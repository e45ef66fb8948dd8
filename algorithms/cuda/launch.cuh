#pragma once
// Shared by the sources of kernels: error checks and launching a kernel of a table. For nvcc only.

#include <cuda_runtime_api.h>

#include <string>

#include "algorithms/cuda/scan.h"
#include "algorithms/cuda/scan_plan.h"

namespace troupe::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report it again
  throw CudaError(std::string(what) + ": CUDA: " + cudaGetErrorString(status));
}

using Kernel = void (*)(DeviceScan);

inline void start(Kernel kernel, const ScanPlan& plan, const DeviceScan& scan, cudaStream_t stream) {
  kernel<<<static_cast<unsigned>(plan.blocks), static_cast<unsigned>(plan.threads),
           static_cast<std::size_t>(plan.shared_bytes), stream>>>(scan);
  check(cudaGetLastError(), "launching the scan");
}

// The kernels along rows and down columns; defined in scan_rows.cu and scan_columns.cu.
Kernel row_kernel(ScanRule rule, const ScanPlan& plan);
Kernel column_kernel(ScanRule rule, const ScanPlan& plan);

}  // namespace troupe::cuda
