// What is put of a shard, and read again by another rank.
#include "models/shards/shard_values.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Pair {
  double first = 0, second = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

}  // namespace

TEST_CASE("shard_values: numbers are read as they were put") {
  const RunningNormalizer statistics(5, {1, 2}, {3, 4});
  ShardNumbers numbers;
  put(numbers, 0.5);
  put(numbers, statistics);
  put(numbers, Pair{6, 7});
  CHECK(numbers == ShardNumbers{0.5, 5, 1, 2, 3, 4, 6, 7});
  NumberReader reader(numbers);
  CHECK(reader.take<double>() == 0.5);
  CHECK_THROWS_AS(reader.end(), InvariantError);
  const RunningNormalizer read = reader.take_normalizer(2);
  CHECK(read.count() == 5);
  CHECK(read.mean() == statistics.mean());
  CHECK(read.m2() == statistics.m2());
  CHECK(reader.take<Pair>() == Pair{6, 7});
  CHECK_NOTHROW(reader.end());
  CHECK_THROWS_AS(reader.take<double>(), InvariantError);
}

TEST_CASE("shard_values: columns of bytes begin with their number of values") {
  const std::vector<int32_t> tokens = {-1, 2};
  const std::vector<float> none;
  ShardBytes bytes;
  put(bytes, tokens);
  put(bytes, none);
  CHECK(bytes == ShardBytes{2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  ByteReader reader(bytes);
  std::vector<int32_t> first;
  std::vector<float> second = {1};
  reader.take_column(first);
  reader.take_column(second);
  CHECK(first == tokens);
  CHECK(second.empty());
  CHECK_NOTHROW(reader.end());
}

TEST_CASE("shard_values: a column that is cut off is refused, also with a number of values that overflows") {
  for (const uint64_t count : {uint64_t{3}, uint64_t{1} << 62, ~uint64_t{0}}) {
    ShardBytes bytes;
    put(bytes, count);
    put(bytes, Pair{});
    ByteReader reader(bytes);
    std::vector<double> column;
    CHECK_THROWS_AS(reader.take_column(column), InvariantError);
  }
}
