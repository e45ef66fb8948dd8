#include "algorithms/balance/micro_batches.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Values = std::vector<int64_t>;

int64_t tokens(const Values& lengths, const Values& sequences) {
  int64_t sum = 0;
  for (const int64_t sequence : sequences) sum += lengths[static_cast<std::size_t>(sequence)];
  return sum;
}

void check_sound(const Values& lengths, const Partition& batches, int64_t cap) {
  Values seen;
  for (const Values& sequences : batches) {
    REQUIRE(tokens(lengths, sequences) <= cap);
    REQUIRE(std::is_sorted(sequences.begin(), sequences.end()));
    seen.insert(seen.end(), sequences.begin(), sequences.end());
  }
  std::sort(seen.begin(), seen.end());
  Values want(lengths.size());
  std::iota(want.begin(), want.end(), int64_t{0});
  REQUIRE(seen == want);
}

const Values kExample = {100, 900, 50, 950, 400, 600};

}  // namespace

TEST_CASE("micro_batches: a worked example, heaviest by squared length first") {
  const Partition want = {{1, 5}, {0, 2, 3, 4}};
  CHECK(micro_batches(kExample, {.max_tokens = 2000}) == want);
  CHECK(micro_batches(kExample, {.max_tokens = 2000, .by_workload = true}) == want);
  CHECK(micro_batches(kExample, {.max_tokens = 2000, .verl_compat = true}) == want);
  CHECK(micro_batches(kExample, {.max_tokens = 2000, .sort = false}) == Partition{{0, 2, 3, 4}, {1, 5}});
}

TEST_CASE("micro_batches: the cap holds even if the count derived from the total would exceed it") {
  const Values lengths = {1100, 1100, 1100};
  CHECK(micro_batches(lengths, {.max_tokens = 1700}) == Partition{{2}, {1}, {0}});
  const Partition compat = micro_batches(lengths, {.max_tokens = 1700, .verl_compat = true});
  REQUIRE(compat.size() == 2);
  CHECK(std::max(tokens(lengths, compat[0]), tokens(lengths, compat[1])) == 2200);
}

TEST_CASE("micro_batches: every sequence once, none above the cap, and no more micro-batches than needed") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(derive_key(seed, "micro"));
    const int64_t cap = 1 + static_cast<int64_t>(rng.below(300));
    Values lengths;
    for (uint64_t i = rng.below(40); i-- > 0;)
      lengths.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(cap) + 1)));
    MicroBatchOptions options{.max_tokens = cap};
    options.by_workload = seed % 2 == 0;
    options.interleave = seed % 3 == 0;
    options.divided_by = 1 + static_cast<int64_t>(rng.below(4));
    options.min_count = static_cast<int64_t>(rng.below(5));
    const auto elsewhere = static_cast<int64_t>(rng.below(12));
    if (seed % 5 == 0) options.maximum_over_ranks = [&](int64_t own) { return std::max(own, elsewhere); };
    const Partition batches = micro_batches(lengths, options);
    INFO("seed " << seed);
    check_sound(lengths, batches, cap);
    REQUIRE(static_cast<int64_t>(batches.size()) % options.divided_by == 0);
    REQUIRE(static_cast<int64_t>(batches.size()) >= options.min_count);
    if (seed % 5 == 0) REQUIRE(static_cast<int64_t>(batches.size()) >= elsewhere);
  }
}

TEST_CASE("micro_batches: the count is the smallest that differencing can fill") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(derive_key(seed, "smallest"));
    Values lengths;
    for (int i = 0; i < 20; ++i) lengths.push_back(static_cast<int64_t>(rng.below(101)));
    const Partition got = micro_batches(lengths, {.max_tokens = 100});
    int64_t count = std::max<int64_t>((std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) + 99) / 100, 1);
    const auto fits = [&](const Partition& parts) {
      return std::all_of(parts.begin(), parts.end(), [&](const Values& part) { return tokens(lengths, part) <= 100; });
    };
    while (!fits(balanced_partitions(lengths, count))) ++count;
    REQUIRE(static_cast<int64_t>(got.size()) == count);
  }
}

TEST_CASE("micro_batches: uses the largest count of all ranks, with empty micro-batches last if sequences run out") {
  int calls = 0;
  MicroBatchOptions options{.max_tokens = 1000};
  options.maximum_over_ranks = [&](int64_t own) {
    ++calls;
    CHECK(own == 1);
    return int64_t{4};
  };
  CHECK(micro_batches(Values{10, 30}, options) == Partition{{1}, {0}, {}, {}});
  CHECK(calls == 1);
  options.verl_compat = true;
  CHECK_THROWS_WITH_AS(micro_batches(Values{10, 30}, options), "lengths: 2 sequences, but 4 micro-batches are needed",
                       ConfigError);
}

TEST_CASE("micro_batches: a rank without sequences also calls maximum_over_ranks and gets empty micro-batches") {
  int calls = 0;
  MicroBatchOptions options{.max_tokens = 10};
  options.maximum_over_ranks = [&](int64_t own) { return ++calls, std::max<int64_t>(own, 3); };
  CHECK(micro_batches({}, options) == Partition(3));
  CHECK(calls == 1);
  CHECK(micro_batches({}, {.max_tokens = 10}).empty());
}

TEST_CASE("micro_batches: sequences without tokens make one micro-batch") {
  CHECK(micro_batches(Values{0, 0, 0}, {.max_tokens = 10}) == Partition{{0, 1, 2}});
}

TEST_CASE("micro_batches: interleaving puts the heaviest in the middle") {
  const Values lengths = {1, 2, 3, 4, 5};
  MicroBatchOptions options{.max_tokens = 5, .min_count = 5};
  CHECK(micro_batches(lengths, options) == Partition{{4}, {3}, {2}, {1}, {0}});
  options.interleave = true;
  CHECK(micro_batches(lengths, options) == Partition{{0}, {2}, {4}, {3}, {1}});
}

TEST_CASE("micro_batches: of equally heavy ones, the one with the later sequence comes first") {
  CHECK(micro_batches(Values{3, 3, 3}, {.max_tokens = 3}) == Partition{{2}, {1}, {0}});
}

TEST_CASE("micro_batches: errors for bad arguments contain both numbers") {
  CHECK_THROWS_WITH_AS(micro_batches(Values{5, 20}, {.max_tokens = 10}), "lengths: 20 at index 1 exceeds max_tokens 10",
                       ConfigError);
  CHECK_THROWS_WITH_AS(micro_batches(Values{5}, {.max_tokens = 0}), "max_tokens: 0, expected at least 1", ConfigError);
  CHECK_THROWS_AS(micro_batches(Values{-5}, {.max_tokens = 10}), ConfigError);
  CHECK_THROWS_AS(micro_batches(Values{5}, {.max_tokens = 10, .divided_by = 0}), ConfigError);
  CHECK_THROWS_AS(micro_batches(Values{5}, {.max_tokens = 10, .min_count = -1}), ConfigError);
  const int64_t large = int64_t{1} << 62;
  CHECK_THROWS_AS(micro_batches(Values{large, large}, {.max_tokens = large}), ConfigError);
  MicroBatchOptions options{.max_tokens = 10};
  options.maximum_over_ranks = [](int64_t) { return int64_t{0}; };
  CHECK_THROWS_AS(micro_batches(Values{5}, options), ConfigError);
}
