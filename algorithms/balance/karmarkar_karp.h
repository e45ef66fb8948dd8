#pragma once
// Number partitioning by largest differencing (Karmarkar and Karp 1982, "The Differencing Method of Set Partitioning"),
// with the order of every list fixed. A pure function; any thread.

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

// The items of each part, by index.
using Partition = std::vector<std::vector<int64_t>>;

// k lists of indices into `values`, largest sum first (then more items, then the lexicographically larger list of
// (index, value) in the order in which the differencing joined them, which is also the order inside each list). With
// equal_size every part holds n / k items. Parts may be empty when n < k. Throws ConfigError naming both numbers when k
// < 1, a value is negative, the sum exceeds 2^62, or equal_size is asked for and n is not a multiple of k.
Partition karmarkar_karp(std::span<const int64_t> values, int64_t k, bool equal_size = false);

}  // namespace troupe
