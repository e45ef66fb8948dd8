#pragma once
// Sharing sequences out among ranks so that all have about the same work. Pure functions; any thread. All throw
// ConfigError, naming both numbers, for k < 1, negative lengths, sums or workloads beyond 2^62 and counts that do not
// divide.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/balance/karmarkar_karp.h"

namespace troupe {

// karmarkar_karp() with the indices of each part ascending; the parts in its order. n >= k is required.
Partition balanced_partitions(std::span<const int64_t> values, int64_t k, bool equal_size = false);

// Each item, in input order, to the part with the smallest sum so far, the first of equals. With equal_size parts with
// fewer items come first whatever their sum, and n must be a multiple of k.
Partition greedy_partition(std::span<const int64_t> values, int64_t k, bool equal_size = false);

// Each item, in input order, to the first bin where the sum stays within the cap; a new bin when there is none. An item
// above the cap gets a bin of its own.
Partition first_fit(std::span<const int64_t> values, int64_t cap);

// Work of a transformer on a sequence of that length in arbitrary units: 24576 * length + length^2 (verl,
// github.com/volcengine/verl; the linear part is that of a 7B model).
std::vector<int64_t> workloads(std::span<const int64_t> lengths);

struct DataBalancing {
  bool by_workload = true;  // false: by length
  bool light_ends = true;   // inside a part: light sequences at both ends, heavy ones in the middle; else by index
  int64_t minibatch =
      0;  // sequences; balance inside each block of this many sequences (verl's keep_minibatch); 0 = the whole batch
};

// The sequences of each of k ranks, n / k each. With `minibatch` every block of so many sequences is shared out by
// itself and each rank gets its share of every block in turn.
Partition balance_ranks(std::span<const int64_t> lengths, int64_t k, const DataBalancing& options = {});

// The sequences of each of k ranks with the sequences of a group kept together, ascending: groups, which must be
// contiguous in `groups` [n], are shared out by workload, the same number each.
Partition group_balanced_partitions(std::span<const int64_t> lengths, std::span<const int64_t> groups, int64_t k);

// Sums of a partition beside those of k contiguous chunks of n / k items in input order.
struct BalanceStats {
  int64_t min = 0, max = 0;                    // of the chunks before
  int64_t balanced_min = 0, balanced_max = 0;  // of the parts
  double mean = 0;                             // of the parts
  double lower_bound = 0;  // no partition into k parts has a smaller maximum: max(mean, largest item)
  double imbalance = 0;    // balanced_max / mean; 1 = even, and when there is nothing to share
};
BalanceStats balance_stats(std::span<const int64_t> values, const Partition& partition);

// The position at which each sequence of the original order is found in the concatenated parts, so that
// original[i] = concatenated[result[i]]. Throws ConfigError when the parts are not a permutation of 0 .. n - 1.
std::vector<int64_t> restore_order(const Partition& partition);

// values [n], all >= 0 and with a sum of at most 2^62, or ConfigError naming `what` and the number. Returns the sum.
int64_t checked_sum(std::span<const int64_t> values, const char* what);
// Throws ConfigError when values cannot be shared out among k parts as asked.
void check_partition(std::span<const int64_t> values, int64_t k, bool equal_size);

}  // namespace troupe
