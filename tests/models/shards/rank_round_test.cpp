#include "models/shards/rank_round.h"

#include <random>
#include <vector>

#include "tests/support/test.h"

#include "runtime/base/errors.h"

using namespace troupe;

namespace {

// The parts of ranks that have so many shards each, of which shard s says {s} and has these gradients.
std::vector<RankPart> parts_of(const std::vector<size_t>& counts, const std::vector<std::vector<float>>& gradients) {
  std::vector<RankPart> result;
  size_t first = 0;
  for (const size_t count : counts) {
    RankPart& part = result.emplace_back(RankPart{{first, count}, {}, {}});
    for (size_t shard = first; shard < first + count; ++shard) part.numbers.push_back({static_cast<double>(shard)});
    for (const ShardRange& branch : branches_of(part.shards, gradients.size())) {
      RankRound of_branch(branch.count);
      for (size_t i = 0; i < branch.count; ++i)
        of_branch.add({{i, 1}, {}, {{{i, 1}, Array::of<float>(gradients[branch.first + i])}}});
      part.branches.push_back({branch, of_branch.result().gradients});
    }
    first += count;
  }
  return result;
}

RoundResult result_of(std::vector<RankPart> parts, size_t shards) {
  RankRound round(shards);
  for (RankPart& part : parts) {
    CHECK_FALSE(round.complete());
    round.add(std::move(part));
  }
  CHECK(round.complete());
  return round.result();
}

}  // namespace

TEST_CASE("rank_round: the sum has the same bits however the shards are divided among ranks, in any order") {
  constexpr size_t kShards = 7;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> gradients(kShards, std::vector<float>(50));
  for (auto& each : gradients)
    for (float& value : each) value = normal(random) * std::exp2(10 * normal(random));
  const RoundResult wanted = result_of(parts_of({kShards}, gradients), kShards);
  const auto sum = wanted.gradients.view<float>();
  for (size_t i = 0; i < sum.size(); ++i) {
    float low = (gradients[0][i] + gradients[1][i]) + (gradients[2][i] + gradients[3][i]);
    CHECK(sum[i] == low + ((gradients[4][i] + gradients[5][i]) + gradients[6][i]));
  }
  for (const std::vector<size_t>& counts :
       {std::vector<size_t>{4, 3}, {3, 4}, {1, 5, 1}, {2, 2, 2, 1}, {1, 1, 1, 1, 1, 1, 1}}) {
    std::vector<RankPart> parts = parts_of(counts, gradients);
    std::ranges::shuffle(parts, random);
    const RoundResult all = result_of(std::move(parts), kShards);
    CHECK((all.gradients == wanted.gradients));
    for (size_t shard = 0; shard < kShards; ++shard) CHECK(all.numbers.at(shard) == ShardNumbers{double(shard)});
  }
}

TEST_CASE("rank_round: numbers alone, and gradients alone") {
  RoundResult all = result_of({{{1, 1}, {{5}}, {}}, {{0, 1}, {{4}}, {}}}, 2);
  CHECK(all.numbers == std::vector<ShardNumbers>{{4}, {5}});
  CHECK(all.gradients.empty());
  all = result_of(
      {{{0, 1}, {}, {{{0, 1}, Array::of<float>({1}, {2})}}}, {{1, 1}, {}, {{{1, 1}, Array::of<float>({1}, {3})}}}}, 2);
  CHECK(all.numbers.empty());
  CHECK(all.gradients.view<float>()[0] == 5);
}

TEST_CASE("rank_round: what is too large for numbers is there by shard, in their order") {
  const auto data = [](float value) { return Array::of<float>({1}, {value}); };
  const RoundResult all = result_of({{{1, 2}, {}, {}, {data(1), data(2)}}, {{0, 1}, {}, {}, {data(0)}}}, 3);
  REQUIRE(all.data.size() == 3);
  for (size_t shard = 0; shard < 3; ++shard) CHECK(all.data[shard].view<float>()[0] == static_cast<float>(shard));
  CHECK(all.gradients.empty());
}

TEST_CASE("rank_round: parts that do not fit together are refused") {
  RankRound round(3);
  CHECK_THROWS_AS(round.add({{0, 2}, {}, {}, {Array()}}), InvariantError);
  CHECK_THROWS_AS(round.add({{2, 2}, {}, {}}), InvariantError);
  CHECK_THROWS_AS(round.add({{0, 0}, {}, {}}), InvariantError);
  CHECK_THROWS_AS(round.add({{0, 2}, {{1}}, {}}), InvariantError);
  round.add({{0, 2}, {{1}, {2}}, {{{0, 2}, Array::of<float>({1}, {1})}}});
  CHECK_THROWS_AS(round.add({{1, 1}, {{1}}, {}}), InvariantError);
  CHECK_THROWS_AS(round.result(), InvariantError);
  const auto branch = [](ShardRange shards, size_t size) {
    return GradientBranch{shards, Array(DType::f32, {static_cast<int64_t>(size)})};
  };
  CHECK_THROWS_AS(round.add({{2, 1}, {{3}}, {branch({2, 1}, 2)}}), InvariantError);  // of another size
  CHECK_THROWS_AS(round.add({{2, 1}, {}, {branch({2, 1}, 1)}}), InvariantError);     // without numbers
  CHECK_THROWS_AS(round.add({{2, 1}, {{3}}, {}}), InvariantError);                   // without gradients
  CHECK_THROWS_AS(round.add({{2, 1}, {{3}}, {branch({0, 3}, 1)}}), InvariantError);  // of other shards
  CHECK_THROWS_AS(round.add({{2, 1}, {{3}}, {branch({2, 1}, 1), branch({2, 1}, 1)}}), InvariantError);
  CHECK_THROWS_AS(round.add({{2, 1}, {{3}}, {{{2, 1}, Array(DType::f64, {1})}}}), InvariantError);
  round.add({{2, 1}, {{3}}, {branch({2, 1}, 1)}});  // nothing of those has remained
  CHECK(round.result().numbers == std::vector<ShardNumbers>{{1}, {2}, {3}});
  RankRound several(3);
  CHECK_THROWS_AS(several.add({{1, 2}, {}, {branch({1, 1}, 1), branch({2, 1}, 2)}}), InvariantError);
}

TEST_CASE("rank_round: where rounds are exchanged elsewhere, a later round follows those that are complete") {
  const auto part = [](size_t shard) { return RankPart{{shard, 1}, {{static_cast<double>(shard)}}, {}}; };
  RankRounds rounds(2, true);
  CHECK_FALSE(rounds.say({3, 7}, part(0)));
  CHECK_THROWS_AS(rounds.say({4, 0}, part(0)), InvariantError);  // the one before is not complete
  CHECK(rounds.say({3, 7}, part(1)));
  CHECK_THROWS_AS(rounds.say({3, 7}, part(0)), InvariantError);
  CHECK_THROWS_AS(rounds.say({2, 0}, part(0)), InvariantError);
  CHECK_FALSE(rounds.say({5, 0}, part(1)));
  CHECK(rounds.say({5, 0}, part(0))->numbers == std::vector<ShardNumbers>{{0}, {1}});
}

TEST_CASE("rank_round: the pieces of a round are complete by themselves, and a round begins after all of them") {
  const auto part = [](size_t shard) { return RankPart{{shard, 1}, {{static_cast<double>(shard)}}, {}}; };
  RankRounds rounds(2);
  CHECK_FALSE(rounds.say({0, 1}, part(0)));
  CHECK_FALSE(rounds.say({0, 0}, part(1)));
  CHECK(rounds.say({0, 1}, part(1))->numbers == std::vector<ShardNumbers>{{0}, {1}});
  CHECK_THROWS_AS(rounds.say({0, 1}, part(0)), InvariantError);  // is complete
  CHECK_THROWS_AS(rounds.say({0, 0}, part(1)), InvariantError);  // was said
  CHECK_THROWS_AS(rounds.say({1, 0}, part(0)), InvariantError);  // the one before is not complete
  CHECK_THROWS_AS(rounds.say({2, 0}, part(0)), InvariantError);
  CHECK(rounds.say({0, 0}, part(0)));
  CHECK_THROWS_AS(rounds.say({2, 0}, part(0)), InvariantError);
  CHECK_FALSE(rounds.say({1, 0}, part(1)));
  CHECK_THROWS_AS(rounds.say({0, 2}, part(0)), InvariantError);  // of the round before
  CHECK_THROWS_AS(rounds.say({1, uint64_t{1} << 60}, part(0)), InvariantError);
}
