#pragma once
// What the benchmarks of language models share: two shapes, and what the processor can do, measured in the same
// process. One thread.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/decoder/lm_shape.h"
#include "models/decoder/parallel_for.h"
#include "models/learning/answers/answer_batch.h"

namespace troupe {

// A decoder of 0.86 million parameters with `vocabulary` 13, and one of 135 million with the shape of SmolLM2-135M.
LmShape small_lm_shape();
LmShape smollm2_shape();

// 1, and the number of processors if that is more.
std::vector<int> bench_thread_counts();

// The median time of calls of `run` for `seconds`; at least 3 calls, after one that is not counted.
double median_call_seconds(double seconds, const std::function<void()>& run);
// The times of the calls of each of them, called in turns for `seconds`; at least 3 turns, after one that is not
// counted. Every other turn has the reverse order.
std::vector<std::vector<double>> seconds_in_turns(double seconds, std::span<const std::function<void()>> runs);
// The median over the turns of a / b.
double median_ratio(std::span<const double> a, std::span<const double> b);

// Prompts of as many random tokens, to each of them random answers with the lengths of one entry. Half of them have the
// reward 1.
AnswerBatch random_answers(int64_t vocabulary, int64_t prompt_tokens, const std::vector<std::vector<int64_t>>& lengths);

struct ProcessorLimits {
  double gflops;         // multiply-adds in registers on all threads of the ParallelFor, in 1e9 operations per second
  double gb_per_second;  // of an array that is too large for the caches, read once
};
// Takes about half a second.
ProcessorLimits measure_limits(ParallelFor& parallel);

}  // namespace troupe
