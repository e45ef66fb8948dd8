#include "algorithms/balance/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Values = std::vector<int64_t>;

// A literal implementation of the definition: every state holds k lists of (index, value), and all states are searched
// for the one to pop.
struct Literal {
  struct Set {
    int64_t sum = 0;
    std::vector<std::pair<int64_t, int64_t>> items;
    bool operator<(const Set& other) const {
      return std::tuple(sum, items.size(), items) < std::tuple(other.sum, other.items.size(), other.items);
    }
  };
  using State = std::vector<Set>;

  static void order(State& state) {
    std::sort(state.begin(), state.end(), [](const Set& a, const Set& b) { return b < a; });
  }
  static State pop(std::vector<State>& states) {
    const auto spread = [](const State& state) { return state.front().sum - state.back().sum; };
    const auto best = std::max_element(states.begin(), states.end(), [&](const State& a, const State& b) {
      return spread(a) != spread(b) ? spread(a) < spread(b) : a.front() < b.front();
    });
    State out = *best;
    states.erase(best);
    return out;
  }
  static Partition solve(const Values& values, std::size_t k, bool equal_size) {
    std::vector<std::pair<int64_t, int64_t>> items;
    for (std::size_t i = 0; i < values.size(); ++i) items.emplace_back(values[i], static_cast<int64_t>(i));
    std::sort(items.begin(), items.end());
    std::vector<State> states;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!equal_size || i % k == 0) states.emplace_back(k);
      Set& set = states.back()[equal_size ? i % k : 0];
      set.sum = items[i].first;
      set.items = {{items[i].second, items[i].first}};
    }
    for (State& state : states) order(state);
    while (states.size() > 1) {
      State a = pop(states), b = pop(states);
      for (std::size_t i = 0; i < k; ++i) {
        a[i].sum += b[k - 1 - i].sum;
        a[i].items.insert(a[i].items.end(), b[k - 1 - i].items.begin(), b[k - 1 - i].items.end());
      }
      order(a);
      states.push_back(a);
    }
    Partition parts;
    for (const Set& set : states.front()) {
      parts.emplace_back();
      for (const auto& item : set.items) parts.back().push_back(item.first);
    }
    return parts;
  }
};

Values lengths(std::size_t n, uint64_t bound, uint64_t seed) {
  Rng rng(derive_key(seed, "lengths"));
  Values out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<int64_t>(rng.below(bound)));
  return out;
}

// Whether every index occurs exactly once.
bool complete(const Partition& parts, std::size_t n) {
  Values all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  Values want(n);
  std::iota(want.begin(), want.end(), int64_t{0});
  return all == want;
}

int64_t largest(const Values& values, const Partition& parts) { return balance_stats(values, parts).balanced_max; }

const Values kExample = {100, 900, 50, 950, 400, 600};

}  // namespace

TEST_CASE("karmarkar_karp: equals the literal definition, including order, with ties, zeros and duplicates") {
  int cases = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(derive_key(seed, "case"));
    const std::size_t k = 1 + rng.below(7), n = 1 + rng.below(24);
    const uint64_t bounds[] = {1, 2, 4, 20, 1000};
    const bool equal_size = n % k == 0 && rng.below(2) == 0;
    const Values values = lengths(n, bounds[rng.below(5)], seed);
    INFO("seed " << seed);
    REQUIRE(karmarkar_karp(values, static_cast<int64_t>(k), equal_size) == Literal::solve(values, k, equal_size));
    ++cases;
  }
  CHECK(cases == 4000);
}

TEST_CASE("karmarkar_karp: equals the literal definition on larger inputs") {
  for (const uint64_t bound : {3u, 50u, 100000u})
    for (const bool equal_size : {false, true}) {
      const Values values = lengths(320, bound, bound);
      REQUIRE(karmarkar_karp(values, 16, equal_size) == Literal::solve(values, 16, equal_size));
    }
}

TEST_CASE("karmarkar_karp: a worked example") {
  CHECK(karmarkar_karp(kExample, 2) == Partition{{4, 0, 3, 2}, {5, 1}});
  CHECK(balanced_partitions(kExample, 2) == Partition{{0, 2, 3, 4}, {1, 5}});
  CHECK(balanced_partitions(kExample, 2, true) == Partition{{1, 2, 5}, {0, 3, 4}});
  CHECK(balanced_partitions(kExample, 3, true) == Partition{{4, 5}, {2, 3}, {0, 1}});
}

TEST_CASE("karmarkar_karp: no items, more parts than items, one part") {
  CHECK(karmarkar_karp({}, 3) == Partition(3));
  CHECK(karmarkar_karp(Values{5}, 3) == Partition{{0}, {}, {}});
  CHECK(karmarkar_karp({}, 3, true) == Partition(3));
  CHECK(complete(karmarkar_karp(kExample, 1), 6));
}

TEST_CASE("karmarkar_karp: errors for bad arguments contain both numbers") {
  CHECK_THROWS_WITH_AS(karmarkar_karp(kExample, 0), "k: 0, expected at least 1", ConfigError);
  CHECK_THROWS_WITH_AS(karmarkar_karp(kExample, 4, true), "k: 6 values are not a multiple of 4", ConfigError);
  CHECK_THROWS_WITH_AS(karmarkar_karp(Values{1, -2}, 2), "lengths: -2 at index 1, expected at least 0", ConfigError);
  CHECK_THROWS_AS(karmarkar_karp(kExample, int64_t{1} << 40), ConfigError);
  CHECK_THROWS_AS(karmarkar_karp(Values{INT64_MAX, 1}, 2), ConfigError);
  CHECK_THROWS_AS(karmarkar_karp(Values{int64_t{1} << 61, int64_t{1} << 61, 1}, 2), ConfigError);
  CHECK_THROWS_WITH_AS(balanced_partitions(kExample, 7), "k: 7 parts of 6 values, expected at least one per part",
                       ConfigError);
}

TEST_CASE("partition: greedy gives each item in turn to the lightest part") {
  CHECK(greedy_partition(kExample, 2) == Partition{{0, 2, 3, 5}, {1, 4}});
  CHECK(greedy_partition(Values{0, 0, 0}, 2) == Partition{{0, 1, 2}, {}});
  CHECK(greedy_partition(Values{9, 1, 1, 1}, 2, true) == Partition{{0, 3}, {1, 2}});
  CHECK_THROWS_AS(greedy_partition(kExample, 4, true), ConfigError);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Values values = lengths(24, 6, seed);
    const int64_t bias = std::accumulate(values.begin(), values.end(), int64_t{1});
    for (const bool equal_size : {false, true}) {
      Partition want(4);
      Values sums(4, 0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto part = static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
        sums[part] += values[i] + (equal_size ? bias : 0);
        want[part].push_back(static_cast<int64_t>(i));
      }
      REQUIRE(greedy_partition(values, 4, equal_size) == want);
    }
  }
}

TEST_CASE("partition: first_fit opens a bin only if the item fits into no earlier one") {
  CHECK(first_fit(Values{5, 6, 4, 1, 3}, 10) == Partition{{0, 2, 3}, {1, 4}});
  CHECK(first_fit(Values{5, 20, 5}, 10) == Partition{{0, 2}, {1}});
  CHECK(first_fit(Values{}, 10).empty());
  CHECK_THROWS_AS(first_fit(Values{1}, 0), ConfigError);
}

TEST_CASE("partition: karmarkar_karp is no worse than greedy on unsorted lengths") {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const Values values = lengths(2000, 8192, seed);
    CHECK(largest(values, balanced_partitions(values, 16)) <= largest(values, greedy_partition(values, 16)));
  }
}

TEST_CASE("partition: workload is 24576 length + length^2, and its overflow is an error") {
  CHECK(workloads(Values{0, 1, 1000}) == Values{0, 24577, 25576000});
  CHECK_THROWS_AS(workloads(Values{int64_t{1} << 31, int64_t{1} << 31}), ConfigError);
  CHECK_THROWS_AS(workloads(Values{INT64_MAX}), ConfigError);
  CHECK_THROWS_AS(workloads(Values{-1}), ConfigError);
}

TEST_CASE("partition: ranks get the same number of sequences, light ones at both ends") {
  const Partition parts = balance_ranks(kExample, 2, {.by_workload = false});
  CHECK(parts == Partition{{2, 1, 5}, {0, 3, 4}});  // ascending 50, 600, 900: 50, 900 and then back 600
  CHECK(balance_ranks(kExample, 2, {.by_workload = false, .light_ends = false}) == Partition{{1, 2, 5}, {0, 3, 4}});
  const Partition one = balance_ranks(Values{5, 1, 4, 2, 3}, 1, {.by_workload = false});
  CHECK(one == Partition{{1, 4, 0, 2, 3}});  // 1 3 5 | 4 2
  CHECK(balance_ranks({}, 3) == Partition(3));
}

TEST_CASE("partition: with `minibatch`, ranks are balanced inside each minibatch") {
  const Values values = lengths(48, 5000, 3);
  const Partition parts = balance_ranks(values, 4, {.minibatch = 16});
  CHECK(complete(parts, 48));
  for (const auto& part : parts) {
    REQUIRE(part.size() == 12);
    for (std::size_t i = 0; i < part.size(); ++i) CHECK(part[i] / 16 == static_cast<int64_t>(i / 4));
  }
  CHECK_THROWS_WITH_AS(balance_ranks(values, 4, {.minibatch = 10}), "minibatch: 48 lengths are not a multiple of 10",
                       ConfigError);
}

TEST_CASE("partition: the sequences of a group stay together") {
  const Values values = {10, 20, 5, 5, 7, 7, 30, 1};
  const Values groups = {4, 4, 1, 1, 9, 9, 2, 2};
  const Partition parts = group_balanced_partitions(values, groups, 2);
  CHECK(complete(parts, 8));
  for (const auto& part : parts) {
    CHECK(std::is_sorted(part.begin(), part.end()));
    CHECK(part.size() == 4);
    for (std::size_t i = 0; i < 4; i += 2)
      CHECK(groups[static_cast<std::size_t>(part[i])] == groups[static_cast<std::size_t>(part[i + 1])]);
  }
  CHECK_THROWS_AS(group_balanced_partitions(values, Values{4, 1, 4, 1, 9, 9, 2, 2}, 2), ConfigError);
  CHECK_THROWS_AS(group_balanced_partitions(values, groups, 3), ConfigError);
  CHECK_THROWS_AS(group_balanced_partitions(values, groups, 5), ConfigError);
  CHECK_THROWS_AS(group_balanced_partitions(values, groups, 0), ConfigError);
}

TEST_CASE("partition: statistics before and after") {
  const BalanceStats stats = balance_stats(kExample, balanced_partitions(kExample, 2));
  CHECK(stats.min == 1050);
  CHECK(stats.max == 1950);
  CHECK(stats.balanced_min == 1500);
  CHECK(stats.balanced_max == 1500);
  CHECK(stats.mean == 1500);
  CHECK(stats.lower_bound == 1500);
  CHECK(stats.imbalance == 1);
  CHECK(balance_stats({}, Partition(2)).imbalance == 1);
  CHECK(balance_stats(Values{0, 0}, Partition{{0}, {1}}).imbalance == 1);
  CHECK(balance_stats(Values{9, 1}, Partition{{0}, {1}}).lower_bound == 9);
}

TEST_CASE("partition: restoring the order undoes the concatenation of the parts") {
  const Values values = lengths(50, 100, 4);
  const Partition parts = balanced_partitions(values, 7);
  Values joined;
  for (const auto& part : parts)
    for (const int64_t i : part) joined.push_back(values[static_cast<std::size_t>(i)]);
  const Values position = restore_order(parts);
  for (std::size_t i = 0; i < 50; ++i) REQUIRE(joined[static_cast<std::size_t>(position[i])] == values[i]);
  CHECK(restore_order({}).empty());
  CHECK_THROWS_AS(restore_order({{0, 2}}), ConfigError);
  CHECK_THROWS_AS(restore_order({{0, 1}, {1}}), ConfigError);
}
