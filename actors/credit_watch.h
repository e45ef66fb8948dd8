#pragma once
// CreditWatch: which workers hold credits and deliver nothing. Owned by the replay buffer; one thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace troupe {

class CreditWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // A worker delivers when it makes a step or sends a rollout. It may be silent for `patience`, and for kLonger times
  // as long as any worker was before a delivery; before anybody has delivered, for kAtFirst times `patience`. 0 = for
  // ever.
  explicit CreditWatch(std::chrono::milliseconds patience = {}) : patience_(patience) {}

  // The worker has got credits. No effect if it is known.
  void granted(uint64_t worker, Clock::time_point now);
  // Returns whether the worker had been overdue.
  bool delivered(uint64_t worker, Clock::time_point now);
  // A report of a worker says that it has made this many steps. As delivered() if they are more than before.
  bool stepped(uint64_t worker, uint64_t env_steps, Clock::time_point now);
  void left(uint64_t worker) { workers_.erase(worker); }
  // Workers that have become overdue since the last call, of those that hold a credit. Call it at least every
  // kLongestGap: a longer gap means that this process itself was stopped, and does not count.
  std::vector<uint64_t> overdue(Clock::time_point now, const std::function<bool(uint64_t worker)>& holds_credit);
  // How long the worker has been silent.
  std::chrono::milliseconds silence(uint64_t worker, Clock::time_point now) const;

  static constexpr int kLonger = 4, kAtFirst = 10;
  static constexpr std::chrono::seconds kLongestGap{5};

 private:
  struct Worker {
    Clock::time_point since;  // it was granted credits or delivered
    uint64_t env_steps = 0;
    bool overdue = false;
  };

  std::chrono::milliseconds patience_;
  std::map<uint64_t, Worker> workers_;
  Clock::duration longest_{0};  // silence before a delivery
  bool any_ = false;            // somebody has delivered
  Clock::time_point looked_at_;
};

}  // namespace troupe
