#pragma once
// The scan family on an NVIDIA GPU: the same tasks as algorithms/scan/scan.h, with arrays in device memory. Needs no
// CUDA header; built by the preset gpu and, where nvcc is, by the Python package. Any thread.

#include <cstdint>
#include <stdexcept>

#include "algorithms/scan/scan.h"

namespace troupe {

// A CUDA call failed; what() holds CUDA's text.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes of memory of that device that run_scan_on_gpu() needs for a task beside its arrays. Throws as that does.
int64_t gpu_scan_workspace(ScanRule rule, ScanTask task, int device);

// Puts the scan on a stream (a cudaStream_t; nullptr is the default one) of a device, which becomes the calling
// thread's current one, and returns at once. All arrays of the task are in memory that this device reads; only
// `offsets` is in the host's, and is copied. workspace: device memory of gpu_scan_workspace() bytes, aligned to 16,
// which like the arrays must live until the stream is past the scan. `threads` is not looked at. Throws InvariantError
// where a size does not fit, as run_scan() does, and CudaError.
//
// Results differ from the CPU's by rounding: a sequence is composed of pieces, and multiply-adds are rounded once. From
// run to run they are the same bytes, except where tiles that are not closed are joined (docs/algorithms.md, scans on
// the GPU).
void run_scan_on_gpu(ScanRule rule, ScanTask task, void* workspace, int device, void* stream);

}  // namespace troupe
