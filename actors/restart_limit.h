#pragma once
// RestartLimit: decides whether and when to restart a child that has ended. One object covers a child and its
// successive replacements; used by the supervisor and by a node. Plain logic, one thread; times come from the caller.
//
// The first restart is immediate. Each further one within kCalm waits twice as long as the previous one, up to
// kLongestPause. After kMost restarts within kWindow the child is not restarted again.

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

  // The pause before the restart; nullopt when the child must not be restarted.
  std::optional<std::chrono::milliseconds> next_pause(Clock::time_point now);

  // Saves the restarts within kWindow as the milliseconds since each, and restores them.
  std::vector<int64_t> ages(Clock::time_point now) const;
  void restore(const std::vector<int64_t>& ages, Clock::time_point now);

 private:
  std::deque<Clock::time_point> restarts_;
};

}  // namespace troupe
