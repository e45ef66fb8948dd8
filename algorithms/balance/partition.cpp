#include "algorithms/balance/partition.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr int64_t kMaxSum = int64_t{1} << 62;
// Limits empty parts, because each of them uses memory.
constexpr int64_t kMaxEmptyParts = int64_t{1} << 20;

int64_t size_of(std::span<const int64_t> values) { return static_cast<int64_t>(values.size()); }

void check_enough(std::span<const int64_t> values, int64_t k, const char* what) {
  if (size_of(values) < k)
    throw ConfigError("k: " + std::to_string(k) + " parts of " + std::to_string(size_of(values)) + ' ' + what +
                      ", expected at least one per part");
}

void check_divides(int64_t n, int64_t by, const char* what, const char* divisor) {
  if (n % by != 0)
    throw ConfigError(std::string(divisor) + ": " + std::to_string(n) + ' ' + what + " are not a multiple of " +
                      std::to_string(by));
}

std::vector<int64_t> sums_of(std::span<const int64_t> values, const Partition& parts) {
  std::vector<int64_t> sums;
  for (const std::vector<int64_t>& part : parts) {
    int64_t sum = 0;
    for (const int64_t i : part) {
      TROUPE_CHECK(i >= 0 && i < size_of(values), "index", i, "values", size_of(values));
      sum += values[static_cast<std::size_t>(i)];
    }
    sums.push_back(sum);
  }
  return sums;
}

// Reorders a part so that light items are at both ends: every other one in ascending order, then the
// rest in descending order.
void put_light_at_ends(std::vector<int64_t>& part, std::span<const int64_t> values) {
  std::sort(part.begin(), part.end(), [&](int64_t a, int64_t b) {
    const int64_t left = values[static_cast<std::size_t>(a)], right = values[static_cast<std::size_t>(b)];
    return left != right ? left < right : a < b;
  });
  std::vector<int64_t> order(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) order[i % 2 == 0 ? i / 2 : part.size() - 1 - i / 2] = part[i];
  part = std::move(order);
}

}  // namespace

int64_t checked_sum(std::span<const int64_t> values, const char* what) {
  int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0)
      throw ConfigError(std::string(what) + ": " + std::to_string(values[i]) + " at index " + std::to_string(i) +
                        ", expected at least 0");
    if (values[i] > kMaxSum - sum)
      throw ConfigError(std::string(what) + ": the sum exceeds " + std::to_string(kMaxSum) + " at index " +
                        std::to_string(i) + " with " + std::to_string(values[i]));
    sum += values[i];
  }
  return sum;
}

void check_partition(std::span<const int64_t> values, int64_t k, bool equal_size) {
  if (k < 1) throw ConfigError("k: " + std::to_string(k) + ", expected at least 1");
  if (k > std::max(size_of(values), kMaxEmptyParts))
    throw ConfigError("k: " + std::to_string(k) + " parts of " + std::to_string(size_of(values)) +
                      " values, expected at most " + std::to_string(std::max(size_of(values), kMaxEmptyParts)));
  checked_sum(values, "lengths");
  if (equal_size) check_divides(size_of(values), k, "values", "k");
}

Partition balanced_partitions(std::span<const int64_t> values, int64_t k, bool equal_size) {
  check_enough(values, k, "values");
  Partition parts = karmarkar_karp(values, k, equal_size);
  for (std::vector<int64_t>& part : parts) std::sort(part.begin(), part.end());
  return parts;
}

Partition greedy_partition(std::span<const int64_t> values, int64_t k, bool equal_size) {
  check_partition(values, k, equal_size);
  Partition parts(static_cast<std::size_t>(k));
  // The next item goes to the part with the fewest items (if sizes must be equal), smallest sum and smallest index.
  struct Load {
    std::size_t items;
    int64_t sum;
    std::size_t part;
    bool operator>(const Load& other) const {
      if (items != other.items) return items > other.items;
      return sum != other.sum ? sum > other.sum : part > other.part;
    }
  };
  std::vector<Load> heap;
  for (std::size_t part = 0; part < parts.size(); ++part) heap.push_back({0, 0, part});
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    Load& load = heap.back();
    parts[load.part].push_back(static_cast<int64_t>(i));
    load.items += equal_size;
    load.sum += values[i];
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  return parts;
}

Partition first_fit(std::span<const int64_t> values, int64_t cap) {
  if (cap < 1) throw ConfigError("cap: " + std::to_string(cap) + ", expected at least 1");
  checked_sum(values, "lengths");
  Partition bins;
  std::vector<int64_t> sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t bin = 0;
    while (bin < bins.size() && sums[bin] + values[i] > cap) ++bin;
    if (bin == bins.size()) {
      bins.emplace_back();
      sums.push_back(0);
    }
    bins[bin].push_back(static_cast<int64_t>(i));
    sums[bin] += values[i];
  }
  return bins;
}

std::vector<int64_t> workloads(std::span<const int64_t> lengths) {
  constexpr int64_t kLinear = 24576;
  std::vector<int64_t> out;
  for (const int64_t length : lengths) {
    int64_t work = 0;
    if (length < 0 || length > kMaxSum - kLinear || __builtin_mul_overflow(length, length + kLinear, &work))
      throw ConfigError("lengths: the workload of a sequence of length " + std::to_string(length) + " is not in [0, " +
                        std::to_string(kMaxSum) + ']');
    out.push_back(work);
  }
  checked_sum(out, "workload of the lengths");
  return out;
}

Partition balance_ranks(std::span<const int64_t> lengths, int64_t k, const DataBalancing& options) {
  check_partition(lengths, k, /*equal_size=*/false);
  const std::vector<int64_t> values =
      options.by_workload ? workloads(lengths) : std::vector<int64_t>(lengths.begin(), lengths.end());
  const int64_t n = size_of(values);
  const int64_t block = options.minibatch == 0 ? n : options.minibatch;
  if (block < 0) throw ConfigError("minibatch: " + std::to_string(block) + ", expected at least 0");
  Partition parts(static_cast<std::size_t>(k));
  if (n == 0) return parts;
  check_divides(n, block, "lengths", "minibatch");
  for (int64_t first = 0; first < n; first += block) {
    const auto part_values =
        std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(block));
    Partition shares = balanced_partitions(part_values, k, /*equal_size=*/true);
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      if (options.light_ends) put_light_at_ends(shares[rank], part_values);
      for (const int64_t i : shares[rank]) parts[rank].push_back(first + i);
    }
  }
  return parts;
}

Partition group_balanced_partitions(std::span<const int64_t> lengths, std::span<const int64_t> groups, int64_t k) {
  TROUPE_CHECK(lengths.size() == groups.size(), "lengths", lengths.size(), "groups", groups.size());
  const std::vector<int64_t> work = workloads(lengths);
  std::vector<int64_t> first, sums;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == 0 || groups[i] != groups[i - 1]) {
      first.push_back(static_cast<int64_t>(i));
      sums.push_back(0);
    }
    sums.back() += work[i];
  }
  std::vector<int64_t> ids;
  for (const int64_t i : first) ids.push_back(groups[static_cast<std::size_t>(i)]);
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end())
    throw ConfigError("groups: the sequences of a group must be contiguous");
  check_enough(sums, std::max<int64_t>(k, 1), "groups");
  check_divides(size_of(sums), std::max<int64_t>(k, 1), "groups", "k");
  first.push_back(size_of(groups));
  Partition parts = balanced_partitions(sums, k, /*equal_size=*/true);
  for (std::vector<int64_t>& part : parts) {
    std::vector<int64_t> sequences;
    for (const int64_t g : part)
      for (int64_t sequence = first[static_cast<std::size_t>(g)]; sequence < first[static_cast<std::size_t>(g) + 1];
           ++sequence)
        sequences.push_back(sequence);
    part = std::move(sequences);
  }
  return parts;
}

BalanceStats balance_stats(std::span<const int64_t> values, const Partition& partition) {
  const int64_t total = checked_sum(values, "lengths");
  BalanceStats out;
  if (partition.empty() || values.empty()) return out.imbalance = 1, out;
  const auto parts = static_cast<double>(partition.size());
  const std::vector<int64_t> sums = sums_of(values, partition);
  const std::size_t chunk = std::max<std::size_t>(values.size() / partition.size(), 1);
  std::vector<int64_t> chunks;
  for (std::size_t first = 0; first < values.size(); first += chunk) {
    const auto items = values.subspan(first, std::min(chunk, values.size() - first));
    chunks.push_back(std::accumulate(items.begin(), items.end(), int64_t{0}));
  }
  out.min = *std::min_element(chunks.begin(), chunks.end());
  out.max = *std::max_element(chunks.begin(), chunks.end());
  out.balanced_min = *std::min_element(sums.begin(), sums.end());
  out.balanced_max = *std::max_element(sums.begin(), sums.end());
  out.mean = static_cast<double>(total) / parts;
  out.lower_bound = std::max(out.mean, static_cast<double>(*std::max_element(values.begin(), values.end())));
  out.imbalance = total == 0 ? 1.0 : static_cast<double>(out.balanced_max) / out.mean;
  return out;
}

std::vector<int64_t> restore_order(const Partition& partition) {
  std::size_t n = 0;
  for (const std::vector<int64_t>& part : partition) n += part.size();
  std::vector<int64_t> position(n, -1);
  int64_t at = 0;
  for (const std::vector<int64_t>& part : partition)
    for (const int64_t i : part) {
      if (i < 0 || i >= static_cast<int64_t>(n) || position[static_cast<std::size_t>(i)] >= 0)
        throw ConfigError("partition: index " + std::to_string(i) + " at position " + std::to_string(at) + " of " +
                          std::to_string(n) +
                          (i < 0 || i >= static_cast<int64_t>(n) ? " is out of range" : " occurs twice"));
      position[static_cast<std::size_t>(i)] = at++;
    }
  return position;
}

}  // namespace troupe
