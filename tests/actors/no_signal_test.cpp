// The alarm no_signal of token runs: it comes early where many groups of answers are all alike, and not by chance.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "actors/alarm_watch.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr int64_t kAnswers = 8;  // to each prompt

struct Case {
  int64_t groups = 32;           // in an update
  double right = 0;              // the rate at which answers are right
  double success_rate = 0;       // that stats knows
  std::optional<int64_t> facts;  // groups that the watch knows of; none: the same
};

// The updates until the alarm is raised; 0 if none of `updates` raises it.
uint64_t raised_after(const Case& c, uint64_t updates) {
  AlarmWatch watch(AlarmWatch::Facts{.token_run = true, .compared_groups = c.facts.value_or(c.groups)});
  Rng rng(derive_key(1, "no_signal"));
  for (uint64_t number = 1; number <= updates; ++number) {
    bool alike = true;
    for (int64_t group = 0; group < c.groups; ++group) {
      int64_t right = 0;
      for (int64_t answer = 0; answer < kAnswers; ++answer) right += rng.uniform_double() < c.right ? 1 : 0;
      alike &= right == 0 || right == kAnswers;
    }
    const std::map<std::string, double> metrics{{"advantage_std", alike ? 0.0 : 0.3}};
    watch.add({.number = number, .metrics = metrics, .progress = 0.3, .success_rate = c.success_rate});
    if (watch.raised().contains("no_signal")) return number;
  }
  return 0;
}

}  // namespace

TEST_CASE("no_signal: a token run in which no answer is ever right warns after 5 updates with many groups") {
  CHECK(raised_after({.groups = 32}, 100) == 5);
  CHECK(raised_after({.groups = 13}, 100) == 5);
}

TEST_CASE("no_signal: with few groups in an update it takes more updates, and never more than 20") {
  CHECK(raised_after({.groups = 8}, 100) == 8);
  CHECK(raised_after({.groups = 12}, 100) == 6);
  CHECK(raised_after({.groups = 4}, 100) == 16);
  CHECK(raised_after({.groups = 1}, 100) == 20);
}

TEST_CASE("no_signal: where nothing is known of groups, or of how many answers are right, it takes 20 updates") {
  CHECK(raised_after({.groups = 32, .facts = 0}, 100) == 20);
  CHECK(raised_after({.groups = 32, .success_rate = kUnknown}, 100) == 20);
}

TEST_CASE("no_signal: answers that are right at a low rate, from which a run learns, raise no alarm by chance") {
  constexpr uint64_t kUpdates = 2000;
  for (const int64_t groups : {8, 13, 32})
    for (const double right : {0.03, 0.1, 0.5}) {
      CAPTURE(groups);
      CAPTURE(right);
      CHECK(raised_after({.groups = groups, .right = right, .success_rate = right}, kUpdates) == 0);
    }
}

TEST_CASE("no_signal: updates in which no token has a loss raise it too, and say so") {
  AlarmWatch watch(AlarmWatch::Facts{.token_run = true});
  const std::map<std::string, double> metrics{{"masked_fraction", 1.0}};
  for (uint64_t number = 1; number <= 20; ++number) watch.add({.number = number, .metrics = metrics, .progress = 0.3});
  REQUIRE(watch.raised().contains("no_signal"));
  CHECK(watch.raised().at("no_signal").text.starts_with("no token has a loss"));
}

TEST_CASE("no_signal: a run that has solved its task raises no alarm") {
  CHECK(raised_after({.groups = 32, .right = 1, .success_rate = 1}, 100) == 0);
}
