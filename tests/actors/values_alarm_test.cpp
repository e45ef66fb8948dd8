// The alarm values_off: nearly all samples return much more or less than the values expect.
#include <cstdint>
#include <map>
#include <string>

#include "actors/alarm_watch.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Advantages {
  double mean = 0, std = 0;
};

struct Run {
  AlarmWatch watch = AlarmWatch(AlarmWatch::Facts{});
  uint64_t number = 0;
  double returns = 50;  // mean of the value targets

  void updates(int count, Advantages advantages) {
    for (int i = 0; i < count; ++i) {
      const std::map<std::string, double> metrics{{"advantage_mean", advantages.mean},
                                                  {"advantage_std", advantages.std},
                                                  {"return_mean", returns},
                                                  {"return_std", 1}};
      watch.add({.number = ++number, .metrics = metrics, .progress = 0.01});
    }
  }
  bool raised() const { return watch.raised().contains("values_off"); }
};

constexpr Advantages kUsual{0.1, 1}, kShifted{-9, 3};

}  // namespace

TEST_CASE("values_off: rewards that change their sign are noticed within 3 updates, in either direction") {
  for (const double sign : {-1.0, 1.0}) {
    Run run;
    run.updates(40, kUsual);
    run.updates(2, {sign * kShifted.mean, kShifted.std});
    CHECK_FALSE(run.raised());
    run.updates(1, {sign * kShifted.mean, kShifted.std});
    CHECK(run.raised());
    run.updates(static_cast<int>(kLeastClear), kUsual);
    CHECK_FALSE(run.raised());
  }
}

TEST_CASE("values_off: a few samples with large advantages are no reason") {
  Run run;
  run.updates(40, {0, 0});
  run.updates(20, {1, 10});  // the first rewards of a run in which they are rare
  CHECK_FALSE(run.raised());
}

TEST_CASE("values_off: of a solved task, whose values are off by a tiny part of the returns, nothing is said") {
  Run run;
  run.updates(100, {1e-4, 1e-4});
  run.updates(20, {-2, 0.1});
  CHECK_FALSE(run.raised());
  run.returns = -30;
  run.updates(3, {-2, 0.1});
  CHECK(run.raised());
}

TEST_CASE("values_off: values that were always behind the policy are no reason") {
  Run run;
  run.updates(200, {5, 1});
  CHECK_FALSE(run.raised());
}

TEST_CASE("values_off: the first 20 updates are compared with nothing") {
  Run run;
  run.updates(17, kUsual);
  run.updates(3, kShifted);
  CHECK_FALSE(run.raised());
}

TEST_CASE("values_off: advantages that are made without values raise nothing") {
  Run run;
  run.watch = AlarmWatch(AlarmWatch::Facts{.uses_values = false});
  run.updates(40, kUsual);
  run.updates(10, kShifted);
  CHECK_FALSE(run.raised());
}
