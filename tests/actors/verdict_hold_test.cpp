#include "actors/verdict_hold.h"

#include <string>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Clock = VerdictHold::Clock;

// A run that samples and trains, with these shares of time.
StatsSnapshot with_shares(double inference, double machine) {
  StatsSnapshot s;
  s.env_steps = 100'000;
  s.env_steps_per_second = 1000;
  s.updates = 500;
  s.trainer_wait_fraction = 0.5;
  s.workers_up = s.workers_total = s.inference_up = s.inference_own = 1;
  s.recent = {.produced = 10'000, .trainer_wait = 0.5, .since_update = 0.1, .longest_update = 0.2};
  s.busy = {.workers = 0.5, .inference = inference, .trainer = 0.5, .machine = machine};
  return s;
}

const StatsSnapshot kInference = with_shares(0.9, 0.99), kProcessors = with_shares(0.8, 0.99),
                    kNone = with_shares(0.5, 0.5);

struct Change {
  int second;
  std::string what;
};

// What is shown when it changes, of reports every 2 s; `at` gives the report of a second.
template <class At>
std::vector<Change> changes_of(VerdictHold hold, int from, int to, At at) {
  std::vector<Change> changes;
  for (int second = from; second < to; second += 2) {
    const Bottleneck shown = hold.shown(at(second), Clock::time_point() + seconds(second));
    if (changes.empty() || changes.back().what != shown.what) changes.push_back({second, shown.what});
  }
  return changes;
}

}  // namespace

TEST_CASE("verdict_hold: figures about a limit do not change the verdict") {
  // As on a shared machine: all processors are busy, and the share of inference moves about 85 %.
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 10, 600,
                                  [](int second) { return second % 8 < 4 ? kInference : kProcessors; });
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].what == "inference");
}

TEST_CASE("verdict_hold: in the first 10 s of a training the newest verdict is shown") {
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 0, 30, [](int second) {
    return second < 2 ? kNone : second < 6 ? kInference : kProcessors;
  });
  REQUIRE(changes.size() == 3);
  CHECK(changes[1].second == 2);
  CHECK(changes[2].second == 6);
}

TEST_CASE("verdict_hold: another verdict is shown once it has held for 10 s") {
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 100, 300,
                                  [](int second) { return second < 200 ? kInference : kNone; });
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].what == "none");
  CHECK(changes[1].second == 210);
}

TEST_CASE("verdict_hold: there is at most one change a minute after the first minute") {
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 0, 1200, [](int second) {
    return second / 20 % 2 == 0 ? kInference : kProcessors;  // each holds for 20 s
  });
  CHECK(changes.size() > 3);
  for (size_t i = 1; i < changes.size(); ++i)
    if (changes[i].second > 60)
      CHECK(changes[i].second - changes[i - 1].second >= (changes[i - 1].second > 60 ? 60 : 0));
}

TEST_CASE("verdict_hold: in the first minute of a training only the 10 s count") {
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 0, 60, [](int second) {
    return second < 10 ? kInference : second < 26 ? kProcessors : kNone;
  });
  REQUIRE(changes.size() == 3);
  CHECK(changes[1].second == 20);
  CHECK(changes[2].second == 36);
}

TEST_CASE("verdict_hold: what the run waits for is told at once, and so is what comes after it") {
  StatsSnapshot lost = kNone;
  lost.workers_up = 0;
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 100, 120, [&](int second) {
    return second < 110 ? kInference : second < 114 ? lost : kProcessors;
  });
  REQUIRE(changes.size() == 3);
  CHECK(changes[1].what == "waiting for workers");
  CHECK(changes[1].second == 110);
  CHECK(changes[2].what == "processors");
  CHECK(changes[2].second == 114);
}

TEST_CASE("verdict_hold: the verdict that is shown follows its own figures, and keeps the last ones while it is held") {
  VerdictHold hold{Clock::time_point()};
  const auto why = [&](const StatsSnapshot& s, int second) {
    return hold.shown(s, Clock::time_point() + seconds(second)).why;
  };
  CHECK(why(with_shares(0.9, 0.5), 100) == "inference actors are busy 90 % of the time");
  CHECK(why(with_shares(0.95, 0.5), 102) == "inference actors are busy 95 % of the time");
  CHECK(why(kNone, 104) == "inference actors are busy 95 % of the time");
}

TEST_CASE("verdict_hold: steps of many seconds, between which no samples come, do not make the verdict change") {
  // The trainer trains on what replay holds.
  StatsSnapshot pause = kProcessors;
  pause.env_steps_per_second = 0;
  pause.updates_per_second = 1;
  const auto changes = changes_of(VerdictHold(Clock::time_point()), 100, 300,
                                  [&](int second) { return second % 16 < 8 ? kInference : pause; });
  CHECK(changes.size() == 1);
}

TEST_CASE("verdict_hold: the end of training is told at once") {
  VerdictHold hold{Clock::time_point()};
  CHECK(hold.shown(kInference, Clock::time_point() + seconds(100)).what == "inference");
  StatsSnapshot ended = kInference;
  ended.training_ended = true;
  CHECK(hold.shown(ended, Clock::time_point() + milliseconds(100'001)).what.empty());
}
