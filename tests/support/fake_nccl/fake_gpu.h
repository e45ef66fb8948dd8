#pragma once
// Control of the GPU and the NCCL of tests: what goes wrong, and what exists. Usable from any thread.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/support/fake_nccl/nccl.h"

namespace fake_gpu {

inline constexpr int kForEver = -1;

// What goes wrong at the ranks for which `rank` is right. A number of polls is one of calls of ncclCommGetAsyncError.
struct Faults {
  int rank = -1;                              // -1: all
  int init_polls = 0;                         // for which an init stays in progress
  int launch_polls = 0;                       // for which a broadcast stays in progress, and is not launched
  bool kernels_hang = false;                  // until their communicator is aborted
  bool finalize_hangs = false;                // it stays in progress
  bool abort_hangs = false;                   // until release()
  ncclResult_t init_result = ncclInProgress;  // of ncclCommInitRankConfig
};
void set_faults(const Faults& faults);
// Ends the calls that hang; later ones no longer do.
void release();
// Every communicator of this process fails with this error.
void fail_communicators(ncclResult_t error);

void set_devices(int count);  // 1 at the start

// What exists now.
struct Existing {
  int communicators = 0, streams = 0, events = 0, device_blocks = 0, pinned_blocks = 0;
  friend bool operator==(const Existing&, const Existing&) = default;
};
Existing existing();
uint64_t allocations();               // of device or pinned memory, since the start
uint64_t allocations_on(int device);  // those of device memory
uint64_t aborts();                    // begun since the start
uint64_t finalized();                 // communicators that ended in good order
uint64_t hanging_aborts();            // now

// For nccl_stub.cpp: a task of a stream, and which device this thread uses.
void enqueue(cudaStream_t stream, std::function<void()> task);
int current_device();
void count(int Existing::* what, int by);

}  // namespace fake_gpu
