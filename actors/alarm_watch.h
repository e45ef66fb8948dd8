#pragma once
// AlarmWatch: raises and lowers the alarms of runtime/stats/alarms.h from what stats learns of a run. Its memory is
// bounded. One thread at a time. Stats owns that of the figures, the RunSink that of the files of the run.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/caf/inspect.h"
#include "runtime/stats/alarms.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class AlarmWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // What the watch knows of the run besides its figures.
  struct Facts {
    bool token_run = false;
    bool uses_values = true;         // the advantages are made from the values of the policy
    double most_entropy = kUnknown;  // the largest that is possible, where that is known and all actions are allowed
    int64_t window = 100;            // episodes in the mean of the returns
    int64_t compared_groups = 0;     // in one update: of answers that are compared with each other; 0 = none
    uint64_t first_checkpoint = 0;   // the update after which it is written
    bool keeps_best = true;          // checkpoint.keep_best
  };
  AlarmWatch() = default;
  explicit AlarmWatch(const Facts& facts) : facts_(facts) {}
  const Facts& facts() const { return facts_; }

  // What one update leaves behind.
  struct Update {
    uint64_t number = 0;
    const std::map<std::string, double>& metrics;
    bool skipped_steps = false;
    double progress = kUnknown;  // of the run, 0 to 1
    // Returns over the statistics window, and over its newest quarter; unknown before the window is full.
    double return_mean = kUnknown, return_std = kUnknown, newest_return_mean = kUnknown;
    double success_rate = kUnknown;  // over the window
  };
  void add(const Update& update);

  // Call with each report. `behind` has one line for each inference actor that falls behind. Times count only if the
  // snapshot has them, so that a deterministic run is not changed by them.
  void look(const StatsSnapshot& snapshot, const std::vector<std::string>& behind, Clock::time_point now);

  // Of the files that a run writes: why they could not be written last, one line for each. Another watch than that of
  // the figures may look at them.
  void look_at_files(const std::vector<std::string>& refusals, uint64_t update);

  // Those raised now, by name.
  const std::map<std::string, Alarm>& raised() const { return raised_; }
  // One for each alarm raised or lowered since the last call.
  struct Line {
    bool warns = false;  // that it is raised; otherwise that it is over
    std::string text;
  };
  std::vector<Line> take_lines() { return std::exchange(lines_, {}); }
  // Those that were raised since the last call.
  std::vector<RaisedAlarm> take_raised() { return std::exchange(new_, {}); }
  // The first of level error among those that were raised since the last call; empty without one.
  std::string take_error() { return std::exchange(new_error_, {}); }

  // All that add() knows, as a state for inspect().
  template <class I> friend typename I::result_type inspect(I& f, AlarmWatch& x) {
    return f(x.streaks_, x.raised_, x.kl_, x.advantages_, x.most_entropy_, x.first_return_, x.best_return_,
             x.best_std_);
  }

 private:
  struct Streak {
    uint32_t holds = 0, clear = 0;
    uint32_t times_raised = 0;
    template <class I> friend typename I::result_type inspect(I& f, Streak& x) {
      return f(x.holds, x.clear, x.times_raised);
    }
  };
  struct Point {
    Clock::time_point at;
    uint64_t produced = 0, dropped = 0, verifier_failed = 0;
  };

  // `hold` in place of that of the rule; 0: that one.
  void check(std::string_view name, bool holds, uint64_t update, const std::string& measured, uint32_t hold = 0);
  // What to do, in a run that may have no checkpoint from before this update.
  std::string advice(const AlarmRule& rule, uint64_t update) const;
  void check_policy(const Update& update);
  void check_values(const Update& update);
  void check_returns(const Update& update);
  void check_drops(const StatsSnapshot& snapshot, Clock::time_point now);
  void check_memory(const StatsSnapshot& snapshot, Clock::time_point now);
  void check_rate(const StatsSnapshot& snapshot, Clock::time_point now);

  Facts facts_;
  std::map<std::string, Streak> streaks_;
  std::map<std::string, Alarm> raised_;
  std::vector<Line> lines_;
  std::vector<RaisedAlarm> new_;
  std::string new_error_;
  // Of the last kWindow updates, the oldest first: the KL, and the root mean square of the advantages.
  std::vector<WireDouble> kl_, advantages_;
  WireDouble most_entropy_ = kUnknown, first_return_ = kUnknown, best_return_ = kUnknown, best_std_ = kUnknown;
  std::deque<Point> samples_;              // of the last minute
  using Memory = std::array<uint64_t, 4>;  // of each kind of process
  std::deque<std::pair<Clock::time_point, Memory>> memory_;
  std::deque<std::pair<Clock::time_point, double>> best_rates_;  // of each of the last 10 minutes
  std::optional<Clock::time_point> rates_since_;                 // of this start
  uint64_t workers_ = 0;                                         // that made them
};

template <class I> typename I::result_type inspect(I& f, Alarm& x) {
  auto level = static_cast<uint8_t>(x.level);
  typename I::result_type result = f(level, x.since_update, x.text);
  x.level = static_cast<AlarmLevel>(level);
  return result;
}

}  // namespace troupe
