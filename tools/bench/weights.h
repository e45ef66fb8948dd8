#pragma once
// The measurement of `troupe bench weights`: the overhead of the weight channel over a bare broadcast of the same
// bytes.

#include <cstddef>

namespace troupe {

struct WeightsBenchmarkOptions {
  size_t bytes = 100'000'000;
  int repeats = 15;
  size_t bucket_bytes = 0;  // 0: the channel's default
  bool nccl = false;  // the channel's ranks use NCCL and GPUs 0 and 1; the weights are in host memory all the same
};

struct WeightsBenchmark {
  size_t bytes = 0;
  int repeats = 0;
  double bare_broadcast_seconds = 0;  // median: c10d Gloo broadcast of one tensor, until both ranks have it
  // Median: from publish() to the answer: header, buckets into the second buffer, the checksums at both ends, swap, and
  // answer.
  double channel_seconds = 0;
  // The median over pairs measured back to back, so that a slow phase of the machine affects both.
  double ratio_to_bare_broadcast = 0;
};

// Two ranks of this process over loopback, or between two GPUs. Takes about repeats * 0.2 s for 100 MB. Throws
// TransferError, and ConfigError when it cannot use NCCL or the GPUs.
WeightsBenchmark bench_weights(const WeightsBenchmarkOptions& options);

}  // namespace troupe
