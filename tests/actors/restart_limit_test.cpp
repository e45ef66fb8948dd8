#include "actors/restart_limit.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct Driven {
  RestartLimit limit;
  RestartLimit::Clock::time_point now{};

  // The child ends `after` its last end. Returns the pause in ms, or -1 if there is no restart.
  int64_t end(std::chrono::milliseconds after) {
    now += after;
    const auto pause = limit.next_pause(now);
    return pause ? pause->count() : -1;
  }
};

}  // namespace

TEST_CASE("restart_limit: the first restart is immediate, and the pause doubles with each further end, up to 5 s") {
  Driven child;
  for (const int64_t pause : {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000}) CHECK(child.end(1ms) == pause);
}

TEST_CASE("restart_limit: after a minute without an end the next restart is immediate again") {
  Driven child;
  for (int i = 0; i < 5; ++i) child.end(1ms);
  CHECK(child.end(59s) > 0);
  CHECK(child.end(60s) == 0);
}

TEST_CASE("restart_limit: 100 restarts within ten minutes are allowed, one more is not") {
  Driven child;
  for (int i = 0; i < 100; ++i) REQUIRE(child.end(5s) >= 0);
  CHECK(child.end(5s) == -1);
  CHECK(child.end(0s) == -1);
}

TEST_CASE("restart_limit: any number of restarts is allowed if fewer than 100 are within ten minutes") {
  Driven child;
  for (int i = 0; i < 5000; ++i) REQUIRE(child.end(6001ms) >= 0);
}

TEST_CASE("restart_limit: another restart is allowed when the oldest one is ten minutes ago") {
  Driven child;
  for (int i = 0; i < 100; ++i) REQUIRE(child.end(1s) >= 0);
  CHECK(child.end(1s) == -1);
  CHECK(child.end(10min - 101s) == -1);
  CHECK(child.end(1s) >= 0);
}

TEST_CASE("restart_limit: it can be restored with another clock from the ages of its restarts") {
  Driven child, other;
  for (int i = 0; i < 4; ++i) child.end(10s);
  other.now += 1h;
  other.limit.restore(child.limit.ages(child.now), other.now);
  for (int i = 0; i < 120; ++i) CHECK(other.end(3s) == child.end(3s));
}
