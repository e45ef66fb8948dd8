#pragma once
// WarmupSaves: when a warm-up is saved because of the time, so that one whose steps are few and slow is not lost with
// its process. One thread.

#include <algorithm>
#include <chrono>

namespace troupe {

class WarmupSaves {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kInterval = std::chrono::seconds(10);
  static constexpr int kShare = 20;  // a save takes at most this part of the time

  void begin(Clock::time_point now) { due_ = now + kInterval; }
  bool due(Clock::time_point now) const { return now >= due_; }
  // A save is made, for whatever reason, and then has been written.
  void saving(Clock::time_point now) { saving_ = now; }
  void written(Clock::time_point now) { due_ = now + std::max(kInterval, kShare * (now - saving_)); }

 private:
  Clock::time_point due_, saving_;
};

}  // namespace troupe
