#pragma once
// Distributes sequences over ranks so that all have about the same work. Pure functions; any thread. All throw
// ConfigError with both numbers for k < 1, for negative lengths, for sums or workloads above 2^62 and for counts that
// are not divisible as required.

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/balance/karmarkar_karp.h"

namespace troupe {

// karmarkar_karp() with the indices of each part in ascending order; the order of the parts is
// unchanged. Requires n >= k.
Partition balanced_partitions(std::span<const int64_t> values, int64_t k, bool equal_size = false);

// Takes the items in input order and adds each to the part with the smallest sum so far (the first one of equals). With
// equal_size, parts with fewer items come first whatever their sum, and n must be a multiple of k.
Partition greedy_partition(std::span<const int64_t> values, int64_t k, bool equal_size = false);

// Takes the items in input order and adds each to the first bin that stays within the cap, or to a new bin if there is
// none. An item above the cap gets its own bin.
Partition first_fit(std::span<const int64_t> values, int64_t cap);

// The work of a transformer on a sequence of each length, in arbitrary units: 24576 * length + length^2 (verl,
// github.com/volcengine/verl; the linear term is that of a 7B model).
std::vector<int64_t> workloads(std::span<const int64_t> lengths);

struct DataBalancing {
  bool by_workload = true;  // false: by length
  bool light_ends = true;   // inside a part: light sequences at both ends, heavy ones in the middle; false: by index
  int64_t minibatch =
      0;  // balance inside each block of this many sequences (verl's keep_minibatch); 0 = over the whole batch
};

// The sequences of each of k ranks, n / k each. With `minibatch`, each block of that many sequences is distributed
// separately, and a rank's list holds its share of the first block, then of the second, and so on.
Partition balance_ranks(std::span<const int64_t> lengths, int64_t k, const DataBalancing& options = {});

// The sequences of each of k ranks, in ascending order, where the sequences of a group stay together. groups: [n], the
// members of a group must be contiguous. Groups are distributed by workload, the same number to each rank.
Partition group_balanced_partitions(std::span<const int64_t> lengths, std::span<const int64_t> groups, int64_t k);

// Compares a partition with k contiguous chunks of n / k items in input order.
struct BalanceStats {
  int64_t min = 0, max = 0;                    // sums of the chunks, before balancing
  int64_t balanced_min = 0, balanced_max = 0;  // sums of the parts
  double mean = 0;                             // mean sum of the parts
  double lower_bound = 0;  // of the largest sum in any partition into k parts: max(mean, largest item)
  double imbalance = 0;    // balanced_max / mean; 1 = even, also when all values are 0
};
BalanceStats balance_stats(std::span<const int64_t> values, const Partition& partition);

// For each sequence of the original order, its position in the concatenated parts: original[i] =
// concatenated[result[i]]. Throws ConfigError when the parts are not a permutation of 0 .. n - 1.
std::vector<int64_t> restore_order(const Partition& partition);

// The sum of values [n]. Throws ConfigError with `what` and the number if a value is negative or the sum exceeds 2^62.
int64_t checked_sum(std::span<const int64_t> values, const char* what);
// Throws ConfigError when the values cannot be distributed over k parts as requested.
void check_partition(std::span<const int64_t> values, int64_t k, bool equal_size);

}  // namespace troupe
