#pragma once
// A rate limit: `capacity` at once, `per_second` in the long run. One thread at a time.

#include <algorithm>
#include <chrono>
#include <optional>

namespace troupe {

class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  TokenBucket(double capacity, double per_second) : capacity_(capacity), per_second_(per_second), tokens_(capacity) {}

  // Takes `cost`, which is known only now, even if it is not available: take() then fails until it has been made up
  // for.
  void charge(double cost) { tokens_ -= cost; }

  // Takes `cost` if it is available, and returns whether it was.
  bool take(double cost, Clock::time_point now) {
    if (last_)
      tokens_ = std::min(capacity_, tokens_ + per_second_ * std::chrono::duration<double>(now - *last_).count());
    last_ = now;
    if (tokens_ < cost) return false;
    tokens_ -= cost;
    return true;
  }

 private:
  double capacity_;
  double per_second_;
  double tokens_;
  std::optional<Clock::time_point> last_;
};

}  // namespace troupe
