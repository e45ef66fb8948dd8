#include "actors/rank_group.h"

#include <vector>

#include "tests/support/test.h"

#include "runtime/base/errors.h"

using namespace troupe;

TEST_CASE("rank_group: shards are dealt to ranks in order, with at most one more for some") {
  for (size_t shards = 1; shards <= 9; ++shards) {
    for (size_t ranks = 1; ranks <= shards; ++ranks) {
      size_t next = 0;
      for (size_t rank = 0; rank < ranks; ++rank) {
        const ShardRange range = shards_of_rank(rank, ranks, shards);
        CHECK(range.first == next);
        CHECK(range.count >= shards / ranks);
        CHECK(range.count <= shards / ranks + 1);
        next = range.end();
      }
      CHECK(next == shards);
    }
  }
  CHECK_THROWS_AS(shards_of_rank(0, 3, 2), InvariantError);
}

TEST_CASE("rank_group: a round is over when all ranks have said what they have") {
  RankGroup group(3);
  group.begin(7, 2);
  CHECK(group.attempt() == Attempt{7, 1});
  CHECK(group.shards_of(1) == ShardRange{1, 2});
  CHECK_FALSE(group.say(1, {{1, 2}, {{1}, {2}}, {}}));
  CHECK_THROWS_AS(group.say(1, {{1, 2}, {{1}, {2}}, {}}), InvariantError);
  CHECK_THROWS_AS(group.say(0, {{0, 2}, {{0}, {1}}, {}}), InvariantError);
  CHECK(group.round() == 0);
  const auto all = group.say(0, {{0, 1}, {{0}}, {}});
  REQUIRE(all);
  CHECK(all->numbers == std::vector<ShardNumbers>{{0}, {1}, {2}});
  CHECK(group.round() == 1);
  group.begin(7, 1);
  CHECK(group.attempt() == Attempt{7, 2});
  CHECK(group.round() == 0);
  CHECK(group.say(0, {{0, 3}, {{4}, {5}, {6}}, {}}).has_value());
}

TEST_CASE("rank_group: an update is complete when all ranks are done, and a rank with other weights is found") {
  RankGroup group(3);
  group.begin(0, 3);
  group.done(2, 5);
  group.done(0, 5);
  CHECK_FALSE(group.all_done());
  CHECK_THROWS_AS(group.done(0, 5), InvariantError);
  group.done(1, 5);
  CHECK(group.all_done());
  CHECK_FALSE(group.different());
  group.begin(1, 3);
  for (size_t rank = 0; rank < 3; ++rank) group.done(rank, rank == 1 ? 4 : 3);
  CHECK(group.different() == 1);
}
