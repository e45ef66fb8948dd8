#pragma once
// What rank 0 of `troupe bench trainer --ranks` and the processes of its other ranks agree on. Plain functions; any
// thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/run_context.h"

namespace troupe {

struct BenchRun {
  int64_t shards = 2;
  int64_t ranks = 2;
  std::vector<int64_t> hidden;
  int64_t minibatch = 4096;  // samples of an optimizer step, over all shards; made a multiple of what a step needs
};

inline constexpr int64_t kBenchSteps = 64;       // of a rollout
inline constexpr int64_t kBenchMinibatches = 4;  // optimizer steps of an update: one epoch of so many

// One thread in each rank; nothing that ends or pauses the run. Each super-batch is one rollout for each shard, with
// env.rows columns.
RunConfig bench_run_config(const BenchRun& run);

// A run on an environment whose observations are `observations` numbers, with six continuous actions.
std::shared_ptr<RunContext> bench_run_context(const RunConfig& config, int64_t observations);

}  // namespace troupe
