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

TEST_CASE("rank_group: attempts are counted, and each has its own division of the shards") {
  RankGroup group(3);
  group.begin(7, 2);
  CHECK(group.attempt() == Attempt{7, 1});
  CHECK(group.shards_of(1) == ShardRange{1, 2});
  group.begin(7, 1);
  CHECK(group.attempt() == Attempt{7, 2});
  CHECK(group.shards_of(0) == ShardRange{0, 3});
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
