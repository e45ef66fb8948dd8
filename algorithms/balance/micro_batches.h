#pragma once
// Splits a batch into micro-batches with a bounded token count (dynamic batch size). A pure function; any thread.

#include <cstdint>
#include <functional>
#include <span>

#include "algorithms/balance/partition.h"

namespace troupe {

// `verl_compat` follows verl, github.com/volcengine/verl.
struct MicroBatchOptions {
  int64_t max_tokens = 0;  // maximum sum of lengths in one micro-batch
  int64_t min_count = 0;   // minimum number of micro-batches
  int64_t divided_by = 1;  // their number is a multiple of this
  bool by_workload =
      false;  // true: balance and order by 24576 length + length^2; false: balance lengths, order by squared lengths
  // [n] the work of each sequence, in place of these two: it is balanced, and orders.
  std::span<const int64_t> work = {};
  bool sort = true;  // true: heaviest first, so that memory use peaks at once; false: in the order of the partition
  bool interleave = false;   // then: heaviest in the middle, light ones at both ends
  bool verl_compat = false;  // the number depends on the total only, so micro-batches may exceed the cap; an error if
                             // there are more micro-batches than sequences
  // Given this rank's number, returns the largest over all ranks: an all-reduce. Called exactly once on every rank,
  // also on one without sequences.
  std::function<int64_t(int64_t)> maximum_over_ranks = {};
};

// The sequences of each micro-batch, in ascending order. Every micro-batch stays within the cap, unless verl_compat
// is set. When the ranks need more micro-batches than there are sequences, the last ones are empty; a rank must still
// process them, because every rank takes part in each collective operation. Without sequences and without other ranks
// there are no micro-batches. Throws ConfigError with the length and the cap when a sequence is longer than the cap.
Partition micro_batches(std::span<const int64_t> lengths, const MicroBatchOptions& options);

}  // namespace troupe
