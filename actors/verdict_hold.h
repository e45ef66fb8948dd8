#pragma once
// VerdictHold: keeps the verdict on the bottleneck from changing with every report while shares of time move about
// their limits. A run that waits, such as for an evaluation, is reported at once. Owned by stats; one thread.

#include <chrono>
#include <optional>
#include <string>

#include "runtime/stats/snapshot.h"

namespace troupe {

class VerdictHold {
 public:
  using Clock = std::chrono::steady_clock;
  // A verdict must hold for so long before it replaces another, once the run has trained for as long.
  static constexpr std::chrono::seconds kHold{10};
  static constexpr std::chrono::seconds kApart{60};  // between two changes, once the run has trained for as long

  VerdictHold() = default;
  explicit VerdictHold(Clock::time_point training_started) : started_(training_started) {}

  // The verdict to show with this snapshot, which has none yet. Times do not decrease.
  Bottleneck shown(const StatsSnapshot& snapshot, Clock::time_point now);

 private:
  bool may_change(Clock::time_point now) const;

  Clock::time_point started_;
  std::optional<Bottleneck> shown_;  // the last steady verdict; none after one that was told at once
  Clock::time_point changed_;        // when it replaced another steady one
  std::string next_;                 // what the newest verdict is, if it is not the one that is shown
  Clock::time_point next_since_;
};

}  // namespace troupe
