#include "actors/credit_watch.h"

#include <algorithm>
#include <utility>

namespace troupe {

void CreditWatch::granted(uint64_t worker, Clock::time_point now) { workers_.try_emplace(worker, Worker{now}); }

bool CreditWatch::delivered(uint64_t worker, Clock::time_point now) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return false;
  const bool was_overdue = std::exchange(it->second.overdue, false);
  if (!was_overdue) longest_ = std::max(longest_, now - it->second.since);
  any_ = true;
  it->second.since = now;
  return was_overdue;
}

bool CreditWatch::stepped(uint64_t worker, uint64_t env_steps, Clock::time_point now) {
  const auto it = workers_.find(worker);
  if (it == workers_.end() || env_steps <= it->second.env_steps) return false;
  it->second.env_steps = env_steps;
  return delivered(worker, now);
}

std::vector<uint64_t> CreditWatch::overdue(Clock::time_point now,
                                           const std::function<bool(uint64_t worker)>& holds_credit) {
  std::vector<uint64_t> result;
  if (patience_.count() == 0) return result;
  const Clock::duration gap = looked_at_ == Clock::time_point() ? Clock::duration(0) : now - looked_at_;
  looked_at_ = now;
  const Clock::duration patience =
      any_ ? std::max<Clock::duration>(patience_, kLonger * longest_) : kAtFirst * patience_;
  for (auto& [id, worker] : workers_) {
    if (gap > kLongestGap) worker.since += gap;
    if (worker.overdue) continue;
    if (!holds_credit(id)) worker.since = now;
    if (now - worker.since < patience) continue;
    worker.overdue = true;
    result.push_back(id);
  }
  return result;
}

std::chrono::milliseconds CreditWatch::silence(uint64_t worker, Clock::time_point now) const {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - it->second.since);
}

}  // namespace troupe
