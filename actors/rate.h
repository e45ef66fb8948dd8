#pragma once
// Rate: a count over the last minute, and how fast it grows. Plain logic; one thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

namespace troupe {

class Rate {
 public:
  using Clock = std::chrono::steady_clock;

  void add(Clock::time_point now, uint64_t count);
  // Per second, over the last `window`; unknown before the second count.
  double over(Clock::time_point now, std::chrono::seconds window) const;
  // By how much the count has grown within the last minute.
  uint64_t grown() const;

 private:
  std::deque<std::pair<Clock::time_point, uint64_t>> points_;
};

}  // namespace troupe
