#pragma once
// The "nccl" backend: device memory between GPUs, written against nccl.h itself so that it needs no CUDA build of
// LibTorch. Host memory is accepted too: a few KiB travel through the rendezvous store (a header, an answer), more is
// staged on the device. A rank uses the current CUDA device of its process; NCCL requires a different device for each
// rank.

#include <memory>
#include <string>

#include "runtime/weights/process_group.h"

namespace troupe {

std::shared_ptr<GroupBackend> make_nccl_backend(const BackendOptions& options);

// Empty when this process can use a GPU, else the reason why not.
std::string why_no_cuda_device();

}  // namespace troupe
