#include "algorithms/common/groups.h"

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("groups: sequences are listed by group, in ascending order") {
  const std::vector<int64_t> ids = {5, -1, 5, 3, -1};
  const GroupIndex index = index_groups(ids);
  REQUIRE(index.count() == 3);
  const auto sequences = [&](int64_t g) { return std::vector<int64_t>(index.group(g).begin(), index.group(g).end()); };
  CHECK(sequences(0) == std::vector<int64_t>{1, 4});
  CHECK(sequences(1) == std::vector<int64_t>{3});
  CHECK(sequences(2) == std::vector<int64_t>{0, 2});
  CHECK(index_groups({}).count() == 0);
}

TEST_CASE("groups: those with the same metric everywhere are dropped, those with one sequence are kept") {
  const std::vector<int64_t> ids = {1, 2, 1, 2, 3, 4, 4};
  const std::vector<float> metric = {0.1f, 1, 0.1f, 0, 7, 1, std::numeric_limits<float>::quiet_NaN()};
  CHECK(groups_with_spread(metric, ids) == std::vector<uint8_t>{0, 1, 0, 1, 1, 0, 0});
  CHECK(filter_groups(metric, ids) == std::vector<int64_t>{1, 3, 4});
}

TEST_CASE("groups: those with a metric that is not finite are dropped, alone or not") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int64_t> ids = {1, 1, 2, 2, 3, 4, 5, 5, 6};
  const std::vector<float> metric = {kInfinity, 1, -kInfinity, kInfinity, kNaN, kInfinity, 1, 2, 3};
  CHECK(filter_groups(metric, ids) == std::vector<int64_t>{6, 7, 8});
}

TEST_CASE("groups: max_groups keeps the first groups by appearance") {
  const std::vector<int64_t> ids = {9, 2, 9, 2, 1, 1};
  const std::vector<float> metric = {0, 0, 1, 1, 0, 1};
  CHECK(filter_groups(metric, ids, 2) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(filter_groups(metric, ids, 1) == std::vector<int64_t>{0, 2});
  CHECK(filter_groups(metric, ids, 0).empty());
  CHECK(filter_groups({}, {}).empty());
}

TEST_CASE("groups: the three resampling weights") {
  const std::vector<float> scores = {-3, 1, 2, -3};
  const auto near = [&](ResampleWeight weight, const std::vector<double>& want) {
    const std::vector<double> got = resample_weights(scores, weight, 2);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i] + 1e-8).epsilon(1e-12));
  };
  near(ResampleWeight::pow, {9, 1, 4, 9});
  near(ResampleWeight::max_min, {1, 0, 1, 1});
  near(ResampleWeight::max_random, {.1, .1, .4, .1});
  CHECK(find_resample_weight("max_random") == ResampleWeight::max_random);
  CHECK_THROWS_AS(find_resample_weight("max"), ConfigError);
  CHECK_THROWS_AS(resample_weights(std::vector<float>{INFINITY}, ResampleWeight::pow), InvariantError);
}

TEST_CASE("groups: sequences are drawn with the frequency of their weight, and the seed decides which") {
  const std::vector<double> weights = {0, 1, 3, 0, 4, 0};
  const std::vector<int64_t> sequences = draw_sequences(weights, 80000, 7);
  std::vector<double> share(6, 0);
  for (const int64_t sequence : sequences) share[static_cast<std::size_t>(sequence)] += 1.0 / 80000;
  const double want[] = {0, .125, .375, 0, .5, 0};
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(share[i] - want[i]) < 5 * std::sqrt(.25 / 80000));
  CHECK(share[0] + share[3] + share[5] == 0);
  CHECK(draw_sequences(weights, 100, 7) == std::vector<int64_t>(sequences.begin(), sequences.begin() + 100));
  CHECK(draw_sequences(weights, 100, 8) != draw_sequences(weights, 100, 7));
  CHECK(draw_sequences({}, 0, 1).empty());
}

TEST_CASE("groups: invalid weights are rejected") {
  CHECK_THROWS_AS(draw_sequences(std::vector<double>{0, 0}, 1, 1), InvariantError);
  CHECK_THROWS_AS(draw_sequences(std::vector<double>{-1, 2}, 1, 1), InvariantError);
  CHECK_THROWS_AS(draw_sequences(std::vector<double>{NAN}, 1, 1), InvariantError);
  CHECK_THROWS_AS(draw_sequences({}, 1, 1), InvariantError);
}
