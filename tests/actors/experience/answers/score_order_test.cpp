#include "actors/experience/answers/score_order.h"

#include "actors/experience/common/request_retry.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

std::vector<Score> scores_of(double reward) { return {{.reward = reward, .right = false}}; }

// The rewards that can be taken now.
std::vector<double> taken(ScoreOrder& order) {
  std::vector<double> rewards;
  while (const auto scored = order.next()) rewards.push_back(scored->scores.at(0).reward);
  return rewards;
}

}  // namespace

TEST_CASE("score_order: scores are taken in the order of the requests, in whatever order they come") {
  ScoreOrder order;
  const uint64_t first = order.add(5), second = order.add(3), third = order.add(4);
  CHECK(order.outstanding() == 3);
  order.put(third, scores_of(3));
  order.put(second, scores_of(2));
  CHECK(taken(order).empty());
  order.put(first, scores_of(1));
  CHECK(taken(order) == std::vector<double>{1, 2, 3});
  CHECK(order.empty());
}

TEST_CASE("score_order: scores name the group that asked for them") {
  ScoreOrder order;
  order.put(order.add(5), scores_of(1));
  CHECK(order.next()->group == 5);
}

TEST_CASE("score_order: a reply is awaited once, and only for its own group") {
  ScoreOrder order;
  const uint64_t id = order.add(5);
  CHECK(order.awaits({.id = id, .group = 5, .scores = {}, .error = {}}));
  CHECK_FALSE(order.awaits({.id = id, .group = 4, .scores = {}, .error = {}}));
  CHECK_FALSE(order.awaits({.id = id + 1, .group = 5, .scores = {}, .error = {}}));
  order.put(id, scores_of(1));
  CHECK_FALSE(order.awaits({.id = id, .group = 5, .scores = {}, .error = {}}));
}

TEST_CASE("score_order: a request that failed is asked again after a longer and longer time, then given up") {
  ScoreOrder order;
  const uint64_t id = order.add(0);
  CHECK_FALSE(order.ask_again(id));
  std::chrono::milliseconds total{0}, last{0};
  for (uint32_t i = 1; i < ScoreOrder::kMostFailures; ++i) {
    const auto delay = order.failed(id, "planned");
    CHECK(delay >= last);
    CHECK(order.outstanding() == 0);
    CHECK_FALSE(order.awaits({.id = id, .group = 0, .scores = {}, .error = {}}));
    REQUIRE(order.ask_again(id));
    last = delay;
    total += delay;
  }
  CHECK(total == 3270ms);
  CHECK_THROWS_WITH_AS(order.failed(id, "planned"),
                       "scoring failed 10 times in a row on the answers to one prompt, the last time with: planned",
                       ScoringFailed);
}

TEST_CASE("score_order: later requests wait for one that failed") {
  ScoreOrder order;
  const uint64_t first = order.add(0), second = order.add(1);
  order.failed(first, "planned");
  order.put(second, scores_of(2));
  CHECK(taken(order).empty());
  REQUIRE(order.ask_again(first));
  order.put(first, scores_of(1));
  CHECK(taken(order) == std::vector<double>{1, 2});
}
