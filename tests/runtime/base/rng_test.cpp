#include "runtime/base/rng.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("rng: philox gives the published known answer for key 0, counter 0") {
  Rng rng(0, 0);
  CHECK(rng.next_u32() == 0x6627e8d5u);
  CHECK(rng.next_u32() == 0xe169c58du);
  CHECK(rng.next_u32() == 0xbc57ac4cu);
  CHECK(rng.next_u32() == 0x9b00dbd8u);
}

TEST_CASE("rng: a stream continues from its key and counter") {
  Rng a(derive_key(7, "env", 3));
  for (int i = 0; i < 8; ++i) a.next_u32();
  Rng b(a.key(), a.counter());
  CHECK(a.next_u64() == b.next_u64());
}

TEST_CASE("rng: keys differ by seed, name and both indices") {
  std::set<uint64_t> keys;
  for (uint64_t seed : {1, 2})
    for (const char* name : {"env", "act"})
      for (uint64_t i : {0, 1})
        for (uint64_t j : {0, 1}) keys.insert(derive_key(seed, name, i, j));
  CHECK(keys.size() == 16);
}

TEST_CASE("rng: normal has mean 0 and variance 1, uniform stays inside [0, 1)") {
  Rng rng(42);
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = rng.normal();
    sum += x;
    squares += x * x;
    const float u = rng.uniform();
    REQUIRE(u >= 0.0f);
    REQUIRE(u < 1.0f);
  }
  CHECK(std::abs(sum / 100000) < 0.01);
  CHECK(std::abs(squares / 100000 - 1) < 0.02);
}

TEST_CASE("permuted: every index once, whatever the size") {
  for (const uint64_t size : {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 4097}) {
    std::vector<int> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t at = permuted(7, i, size);
      REQUIRE(at < size);
      ++seen[at];
    }
    CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
  CHECK(permuted(1, ~uint64_t{0} - 1, ~uint64_t{0}) < ~uint64_t{0});
}

TEST_CASE("permuted: over the keys, an index is everywhere equally often, also beside the same neighbour") {
  constexpr uint64_t kSize = 7, kKeys = 70'000;
  std::array<int, kSize> first{}, step{};
  for (uint64_t key = 0; key < kKeys; ++key) {
    const uint64_t a = permuted(derive_key(key, "test"), 0, kSize), b = permuted(derive_key(key, "test"), 1, kSize);
    ++first[a];
    ++step[(b + kSize - a) % kSize];
  }
  for (const int count : first) CHECK(std::abs(count - 10'000) < 500);  // five standard deviations
  CHECK(step[0] == 0);
  for (uint64_t i = 1; i < kSize; ++i) CHECK(std::abs(step[i] - 70'000 / 6) < 500);
}
