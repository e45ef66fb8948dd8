#pragma once
// What tests of alarms share: a watch that gets updates, and one that gets reports.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/alarm_watch.h"
#include "runtime/stats/snapshot.h"

namespace troupe::test {

struct WatchedUpdates {
  AlarmWatch watch;
  uint64_t number = 0;

  // The given number of updates with these figures.
  void updates(int count, const std::map<std::string, double>& metrics, bool skipped = false,
               double newest_return = 200, double progress = 0.3) {
    for (int i = 0; i < count; ++i)
      watch.add({.number = ++number,
                 .metrics = metrics,
                 .skipped_steps = skipped,
                 .progress = progress,
                 .return_mean = number < 10 ? 20.0 : 200.0,
                 .return_std = 30,
                 .newest_return_mean = newest_return});
  }
  bool raised(const std::string& name) const { return watch.raised().contains(name); }
};

// A report after so many seconds, with nothing wrong.
inline StatsSnapshot report(double seconds) {
  StatsSnapshot s;
  s.elapsed_seconds = seconds;
  s.env_steps = static_cast<uint64_t>(1000 * seconds);
  s.env_steps_per_second_60s = 1000;
  s.episodes = 5;
  s.ledger.produced = s.env_steps;
  s.rss_bytes = 1'000'000'000;
  return s;
}

// Reports once a second; `change` makes each of them show what is tested.
inline AlarmWatch reports(int count, const std::function<void(StatsSnapshot&, int)>& change,
                          const std::vector<std::string>& behind = {}) {
  AlarmWatch watch;
  for (int i = 0; i < count; ++i) {
    StatsSnapshot s = report(i);
    change(s, i);
    watch.look(s, behind, AlarmWatch::Clock::time_point(std::chrono::seconds(i)));
  }
  return watch;
}

}  // namespace troupe::test
