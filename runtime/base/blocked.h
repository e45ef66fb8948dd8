#pragma once
// The time in which a thread waits and computes nothing: for a device, another process, other members of a group or a
// disk. A wait is marked where it is made; whoever runs on the thread says where its waits count. Without that a mark
// costs a look at a thread-local pointer, otherwise two readings of the clock.

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

namespace troupe {

// Written by one thread at a time, read by any.
class BlockedTime {
 public:
  using Clock = std::chrono::steady_clock;

  // At `now`, in ticks of the clock, with the wait that goes on.
  int64_t ticks(Clock::time_point now) const;

 private:
  friend class Blocked;
  std::atomic<int64_t> ended_{0}, since_{0};  // since_: of the wait that goes on; 0 = none
};

// While it lives, the waits of this thread count there, and not where they counted before.
class CountBlocked {
 public:
  explicit CountBlocked(BlockedTime& time);
  ~CountBlocked();
  CountBlocked(const CountBlocked&) = delete;
  CountBlocked& operator=(const CountBlocked&) = delete;

 private:
  BlockedTime* before_;
};

// Marks a wait: it lives as long. A wait within another counts once.
class Blocked {
 public:
  Blocked();
  ~Blocked();
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;

 private:
  BlockedTime* time_;  // null: it counts nowhere
};

// Whether poll() finds that something of `watched` is ready within `limit`. The wait counts.
bool poll_blocked(std::span<pollfd> watched, std::chrono::milliseconds limit);

}  // namespace troupe
