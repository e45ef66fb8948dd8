#include "models/shards/shard_sum.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test.h"

#include "runtime/base/errors.h"

using namespace troupe;

namespace {

// How the sum of `shards` is put together, with brackets.
std::string sum_of(size_t shards) {
  std::vector<std::string> places(shard_sum_places(shards));
  std::string now;
  for (size_t shard = 0; shard < shards; ++shard) {
    now = std::to_string(shard);
    const ShardSum sum = shard_sum(shard, shards);
    for (const size_t place : sum.add) now = "(" + std::exchange(places.at(place), {}) + "+" + now + ")";
    CHECK(sum.keep.has_value() == (shard + 1 < shards));
    if (!sum.keep) continue;
    CHECK(places.at(*sum.keep).empty());
    places.at(*sum.keep) = now;
  }
  for (const std::string& place : places) CHECK(place.empty());
  return now;
}

}  // namespace

TEST_CASE("shard_sum: the gradients are added up as a binary tree over the numbers of the shards") {
  CHECK(sum_of(1) == "0");
  CHECK(sum_of(2) == "(0+1)");
  CHECK(sum_of(3) == "((0+1)+2)");
  CHECK(sum_of(4) == "((0+1)+(2+3))");
  CHECK(sum_of(6) == "(((0+1)+(2+3))+(4+5))");
  CHECK(sum_of(7) == "(((0+1)+(2+3))+((4+5)+6))");
  CHECK(sum_of(8) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST_CASE("shard_sum: some shards are branches of the tree of all") {
  using Ranges = std::vector<ShardRange>;
  CHECK((branches_of({0, 4}, 4) == Ranges{{0, 4}}));
  CHECK((branches_of({0, 2}, 4) == Ranges{{0, 2}}));
  CHECK((branches_of({2, 2}, 4) == Ranges{{2, 2}}));
  CHECK((branches_of({1, 2}, 4) == Ranges{{1, 1}, {2, 1}}));
  CHECK((branches_of({1, 6}, 8) == Ranges{{1, 1}, {2, 2}, {4, 2}, {6, 1}}));
  CHECK((branches_of({4, 3}, 7) == Ranges{{4, 3}}));
  CHECK((branches_of({2, 3}, 5) == Ranges{{2, 2}, {4, 1}}));
  CHECK((branches_of({0, 1}, 1) == Ranges{{0, 1}}));
  CHECK_THROWS_AS(branches_of({1, 4}, 4), InvariantError);
  CHECK_THROWS_AS(branches_of({1, 0}, 4), InvariantError);
}

TEST_CASE("shard_sum: the stream of the first shard is that of the whole, and each has its own") {
  CHECK(shard_key(17, 0) == 17);
  std::set<uint64_t> keys;
  for (size_t shard = 0; shard < 100; ++shard) keys.insert(shard_key(17, shard));
  CHECK(keys.size() == 100);
}
