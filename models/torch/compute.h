#pragma once
// How LibTorch computes in this process: threads, reproducibility, GPUs.

namespace troupe {

// GPUs of this machine that LibTorch can use.
int gpu_count();

// Threads of one tensor operation of the calling thread (a property of the thread, so each actor's thread sets its
// own).
void set_compute_threads(int threads);

// From now on the same tensor operations give the same bits in every process, whatever the memory addresses. Call
// before the first tensor operation and while there is no other thread.
void compute_reproducibly();

}  // namespace troupe
