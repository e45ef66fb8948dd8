#include "algorithms/balance/micro_batches.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

int64_t sum_of(std::span<const int64_t> values, const std::vector<int64_t>& part) {
  int64_t sum = 0;
  for (const int64_t i : part) sum += values[static_cast<std::size_t>(i)];
  return sum;
}

bool fits(std::span<const int64_t> lengths, const Partition& parts, int64_t cap) {
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) { return sum_of(lengths, part) <= cap; });
}

// A lower bound on the number of micro-batches: from the total, and because a micro-batch holds at most cap / length of
// the i longest sequences.
int64_t least_count(std::span<const int64_t> lengths, int64_t total, int64_t cap) {
  std::vector<int64_t> sorted(lengths.begin(), lengths.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  int64_t least = total / cap + (total % cap != 0);
  for (std::size_t i = 0; i < sorted.size() && sorted[i] > 0; ++i) {
    const int64_t together = cap / sorted[i];
    least = std::max(least, (static_cast<int64_t>(i) + together) / together);
  }
  return least;
}

// n sequences in `count` parts, balanced by `values`. If there are at least as many parts as sequences: one sequence
// per part, and the remaining parts empty.
Partition parts_of(std::span<const int64_t> values, int64_t count) {
  const auto n = static_cast<int64_t>(values.size());
  if (count < n) return balanced_partitions(values, count);
  Partition parts(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < n; ++i) parts[static_cast<std::size_t>(i)].push_back(i);
  return parts;
}

// Splits the heaviest part with several sequences in two until there are `count` parts. This only decreases sums.
void split_to(Partition& parts, std::span<const int64_t> lengths, int64_t count) {
  while (static_cast<int64_t>(parts.size()) < count) {
    const auto heaviest = std::max_element(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.size() > 1, sum_of(lengths, a)) < std::pair(b.size() > 1, sum_of(lengths, b));
    });
    std::vector<int64_t> values;
    for (const int64_t i : *heaviest) values.push_back(lengths[static_cast<std::size_t>(i)]);
    Partition halves = balanced_partitions(values, 2);
    for (auto& half : halves)
      for (int64_t& i : half) i = (*heaviest)[static_cast<std::size_t>(i)];
    *heaviest = std::move(halves[0]);
    parts.push_back(std::move(halves[1]));
  }
}

// Heaviest first; among equally heavy ones, the one with the larger first sequence first. Empty parts stay last.
void sort_by_cost(Partition& parts, std::span<const int64_t> cost, bool interleave) {
  const auto used = std::stable_partition(parts.begin(), parts.end(), [](const auto& part) { return !part.empty(); });
  std::sort(parts.begin(), used, [&](const auto& a, const auto& b) {
    return std::pair(sum_of(cost, a), a.front()) > std::pair(sum_of(cost, b), b.front());
  });
  if (!interleave) return;
  Partition order;
  const auto n = static_cast<std::size_t>(used - parts.begin());
  for (std::size_t i = (n + 1) / 2; i-- > 0;) order.push_back(std::move(parts[2 * i]));
  for (std::size_t i = 1; i < n; i += 2) order.push_back(std::move(parts[i]));
  std::move(order.begin(), order.end(), parts.begin());
}

std::vector<int64_t> squares(std::span<const int64_t> lengths) {
  std::vector<int64_t> out;
  for (const int64_t length : lengths) {
    int64_t square = 0;
    if (__builtin_mul_overflow(length, length, &square))
      throw ConfigError("lengths: the square of " + std::to_string(length) + " is too large");
    out.push_back(square);
  }
  checked_sum(out, "squared lengths");
  return out;
}

void check(std::span<const int64_t> lengths, const MicroBatchOptions& options) {
  const auto at_least = [](const char* key, int64_t value, int64_t low) {
    if (value < low)
      throw ConfigError(std::string(key) + ": " + std::to_string(value) + ", expected at least " + std::to_string(low));
  };
  at_least("max_tokens", options.max_tokens, 1);
  at_least("min_count", options.min_count, 0);
  at_least("divided_by", options.divided_by, 1);
  if (!options.work.empty() && options.work.size() != lengths.size())
    throw ConfigError("work: " + std::to_string(options.work.size()) + " values for " + std::to_string(lengths.size()) +
                      " lengths");
  checked_sum(options.work, "work");
  for (std::size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] > options.max_tokens)
      throw ConfigError("lengths: " + std::to_string(lengths[i]) + " at index " + std::to_string(i) +
                        " exceeds max_tokens " + std::to_string(options.max_tokens));
}

// This rank's own number of micro-batches, and its partition into that many.
std::pair<int64_t, Partition> own_parts(std::span<const int64_t> lengths, std::span<const int64_t> values,
                                        const MicroBatchOptions& options) {
  const auto n = static_cast<int64_t>(lengths.size());
  const int64_t total = checked_sum(lengths, "lengths");
  if (n == 0) return {options.min_count, {}};
  const int64_t by_total = total / options.max_tokens + (total % options.max_tokens != 0);
  int64_t count = std::max<int64_t>({std::min(n, by_total), options.min_count, 1});
  if (options.verl_compat) return {count, {}};
  count = std::max(count, least_count(lengths, total, options.max_tokens));
  Partition parts = parts_of(values, count);
  while (!fits(lengths, parts, options.max_tokens)) parts = parts_of(values, ++count);
  return {count, std::move(parts)};
}

int64_t agreed_count(int64_t own, const MicroBatchOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t count = options.maximum_over_ranks ? options.maximum_over_ranks(own) : own;
  if (count < own || count > kMost)
    throw ConfigError("maximum_over_ranks: " + std::to_string(count) + " of " + std::to_string(own) +
                      " here, expected no fewer and at most " + std::to_string(kMost));
  return (count + options.divided_by - 1) / options.divided_by * options.divided_by;
}

}  // namespace

Partition micro_batches(std::span<const int64_t> lengths, const MicroBatchOptions& options) {
  check(lengths, options);
  const auto n = static_cast<int64_t>(lengths.size());
  const bool given = !options.work.empty();
  const std::vector<int64_t> computed = given                 ? std::vector<int64_t>()
                                        : options.by_workload ? workloads(lengths)
                                                              : squares(lengths);
  const std::span<const int64_t> cost = given ? options.work : std::span<const int64_t>(computed);
  const std::span<const int64_t> values = given || options.by_workload ? cost : lengths;
  auto [own, parts] = own_parts(lengths, values, options);
  const int64_t count = agreed_count(own, options);
  if (options.verl_compat && count > n)
    throw ConfigError("lengths: " + std::to_string(n) + " sequences, but " + std::to_string(count) +
                      " micro-batches are needed");
  if (options.verl_compat) {
    parts = n == 0 ? Partition{} : balanced_partitions(values, count);
  } else if (count != own || parts.empty()) {
    Partition more = parts_of(values, count);
    if (!fits(lengths, more, options.max_tokens)) {
      split_to(parts, lengths, count);
    } else {
      parts = std::move(more);
    }
  }
  if (options.sort) sort_by_cost(parts, cost, options.interleave);
  return parts;
}

}  // namespace troupe
