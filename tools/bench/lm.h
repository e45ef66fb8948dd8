#pragma once
// What the benchmarks of language models share: two shapes, and what the processor can do, measured in the same
// process. One thread.

#include <cstdint>
#include <functional>
#include <vector>

#include "models/decoder/lm_shape.h"
#include "models/decoder/parallel_for.h"

namespace troupe {

// A decoder of 0.86 million parameters with `vocabulary` 13, and one of 135 million with the shape of SmolLM2-135M.
LmShape small_lm_shape();
LmShape smollm2_shape();

// 1, and the number of processors if that is more.
std::vector<int> bench_thread_counts();

// The median time of calls of `run` for `seconds`; at least 3 calls, after one that is not counted.
double median_call_seconds(double seconds, const std::function<void()>& run);

struct ProcessorLimits {
  double gflops;         // multiply-adds in registers on all threads of the ParallelFor, in 1e9 operations per second
  double gb_per_second;  // of an array that is too large for the caches, read once
};
// Takes about half a second.
ProcessorLimits measure_limits(ParallelFor& parallel);

}  // namespace troupe
