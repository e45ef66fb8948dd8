#pragma once
// The "nccl" backend: GPU memory between GPUs, written against nccl.h itself so that it needs no CUDA build of
// LibTorch. Buffers in host memory are accepted too: a few KiB travel through the rendezvous store (a header, an
// answer), more is copied to the GPU and back. NCCL requires another GPU for each rank.
//
// Nothing blocks without a limit. The end of a group whose communicator hangs takes at most a few seconds; as long as
// it hangs, this process cannot join another group and says so in a TransferError.

#include <memory>
#include <string>

#include "runtime/weights/process_group.h"

namespace troupe {

// Throws ConfigError when this process cannot use options.device.
std::shared_ptr<GroupBackend> make_nccl_backend(const BackendOptions& options);

// Empty when this process can use the GPU of that number, else the reason why not.
std::string why_no_cuda_device(int device = 0);

}  // namespace troupe
