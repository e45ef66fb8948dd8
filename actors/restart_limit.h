#pragma once
// RestartLimit: whether and when a child that has ended is started again. One object for a child and those that replace
// it, one after the other; used by the supervisor and by a node. Plain logic, one thread; times come from the caller.
//
// The first restart comes at once. Each further one within kCalm waits twice as long as the one before, up to
// kLongestPause. After kMost restarts within kWindow the child is given up.

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace troupe {

class RestartLimit {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kMost = 100;
  static constexpr std::chrono::minutes kWindow{10};
  static constexpr std::chrono::minutes kCalm{1};
  static constexpr std::chrono::milliseconds kFirstPause{100};
  static constexpr std::chrono::milliseconds kLongestPause{5000};

  // The pause before the child is started again; nothing when it is given up.
  std::optional<std::chrono::milliseconds> next_pause(Clock::time_point now);

  // The restarts within kWindow as milliseconds since each, and back.
  std::vector<int64_t> ages(Clock::time_point now) const;
  void restore(const std::vector<int64_t>& ages, Clock::time_point now);

 private:
  std::deque<Clock::time_point> restarts_;
};

}  // namespace troupe
