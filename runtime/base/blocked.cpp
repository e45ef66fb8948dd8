#include "runtime/base/blocked.h"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

constinit thread_local BlockedTime* blocked_counts_in = nullptr;

int64_t ticks_now() { return BlockedTime::Clock::now().time_since_epoch().count(); }

}  // namespace

int64_t BlockedTime::ticks(Clock::time_point now) const {
  const int64_t since = since_.load(std::memory_order_relaxed);
  const int64_t goes_on = since == 0 ? 0 : std::max<int64_t>(now.time_since_epoch().count() - since, 0);
  return ended_.load(std::memory_order_relaxed) + goes_on;
}

CountBlocked::CountBlocked(BlockedTime& time) : before_(std::exchange(blocked_counts_in, &time)) {}
CountBlocked::~CountBlocked() { blocked_counts_in = before_; }

Blocked::Blocked() : time_(blocked_counts_in) {
  if (time_ == nullptr) return;
  if (time_->since_.load(std::memory_order_relaxed) != 0)
    time_ = nullptr;
  else
    time_->since_.store(ticks_now(), std::memory_order_relaxed);
}

Blocked::~Blocked() {
  if (time_ == nullptr) return;
  const int64_t waited = ticks_now() - time_->since_.load(std::memory_order_relaxed);
  time_->since_.store(0, std::memory_order_relaxed);
  time_->ended_.store(time_->ended_.load(std::memory_order_relaxed) + waited, std::memory_order_relaxed);
}

bool poll_blocked(std::span<pollfd> watched, std::chrono::milliseconds limit) {
  const Blocked blocked;
  return poll(watched.data(), watched.size(), static_cast<int>(limit.count())) > 0;
}

}  // namespace troupe
