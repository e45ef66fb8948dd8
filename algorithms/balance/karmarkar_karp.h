#pragma once
// Number partitioning by the largest differencing method (Karmarkar and Karp 1982, "The Differencing Method of Set
// Partitioning"), with a deterministic order of all results. A pure function; any thread.

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// The items of each part, by index.
using Partition = std::vector<std::vector<int64_t>>;

// k lists of indices into `values`, largest sum first. Equal sums: more items first, then the lexicographically
// larger list of (index, value), in the order in which the differencing joined the items. The indices inside
// each list have that order too. With equal_size every part holds n / k items. Parts may be empty when n < k.
// Throws ConfigError with both numbers when k < 1, a value is negative, the sum exceeds 2^62, or equal_size is
// set and n is not a multiple of k.
Partition karmarkar_karp(std::span<const int64_t> values, int64_t k, bool equal_size = false);

}  // namespace troupe
