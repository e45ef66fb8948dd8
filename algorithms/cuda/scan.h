#pragma once
// The scan family on an NVIDIA GPU: the same tasks as algorithms/scan/scan.h, with arrays in device memory. Needs no
// CUDA header. Built by the preset gpu, and by the Python package if nvcc is available. Any thread.

#include <cstdint>
#include <stdexcept>

#include "algorithms/scan/scan.h"

namespace troupe {

// A CUDA call failed; what() contains CUDA's message.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes of device memory that run_scan_on_gpu() needs for a task in addition to its arrays. Throws InvariantError when
// a size does not fit.
int64_t gpu_scan_workspace(ScanRule rule, ScanTask task);

// Enqueues the scan on a stream (a cudaStream_t; nullptr is the default stream) of a device and returns at once. The
// device becomes the calling thread's current one. All arrays of the task are in memory that this device can read,
// except `offsets`, which are in host memory and are copied. workspace: device memory of gpu_scan_workspace() bytes,
// aligned to 16. Workspace and arrays must stay valid until the stream has finished the scan. `threads` is ignored.
// Throws InvariantError when a size does not fit, like run_scan(), and CudaError.
//
// Results differ from the CPU's by rounding: a sequence is composed of pieces, and multiply-adds are rounded once.
// Repeated runs give identical bits, except where tiles that are not closed are joined (docs/algorithms/scans.md).
void run_scan_on_gpu(ScanRule rule, ScanTask task, void* workspace, int device, void* stream);

}  // namespace troupe
