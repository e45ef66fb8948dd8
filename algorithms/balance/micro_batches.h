#pragma once
// Splitting a batch into micro-batches of bounded token count (dynamic batch size). A pure function; any thread.

#include <cstdint>
#include <functional>
#include <span>

#include "algorithms/balance/partition.h"

namespace troupe {

// `verl_compat` follows verl, github.com/volcengine/verl.
struct MicroBatchOptions {
  int64_t max_tokens = 0;  // cap of the sum of lengths in one micro-batch
  int64_t min_count = 0;   // at least so many micro-batches
  int64_t divided_by = 1;  // their number is a multiple of this
  bool by_workload =
      false;         // balance and order by 24576 length + length^2; false: balance lengths, order by squared lengths
  bool sort = true;  // heaviest first, so that memory peaks at once; false: the order of the partition
  bool interleave = false;   // after that: heaviest in the middle, light ones at both ends
  bool verl_compat = false;  // the number follows from the total alone, so the cap may be exceeded; more micro-batches
                             // than sequences are refused
  // The largest number over all ranks, given this rank's: an all-reduce. Called exactly once, also by a rank without
  // sequences.
  std::function<int64_t(int64_t)> maximum_over_ranks = {};
};

// The sequences of each micro-batch, ascending. Every micro-batch is within the cap; when ranks need more of them than
// there are sequences, the rest are empty and come last: they hold no sequence and still take part in every collective.
// No sequences and no other rank: no micro-batch. Throws ConfigError naming the length and the cap when a sequence is
// longer than it.
Partition micro_batches(std::span<const int64_t> lengths, const MicroBatchOptions& options);

}  // namespace troupe
