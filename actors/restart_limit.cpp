#include "actors/restart_limit.h"

#include <algorithm>

namespace troupe {

std::optional<std::chrono::milliseconds> RestartLimit::next_pause(Clock::time_point now) {
  while (!restarts_.empty() && now - restarts_.front() >= kWindow) restarts_.pop_front();
  if (restarts_.size() >= kMost) return std::nullopt;
  const auto recent =
      std::ranges::count_if(restarts_, [now](Clock::time_point restart) { return now - restart < kCalm; });
  restarts_.push_back(now);
  if (recent == 0) return std::chrono::milliseconds{0};
  constexpr decltype(recent) kMostDoublings = 16;  // far beyond kLongestPause
  return std::min(kFirstPause * (int64_t{1} << std::min(recent - 1, kMostDoublings)), kLongestPause);
}

std::vector<int64_t> RestartLimit::ages(Clock::time_point now) const {
  std::vector<int64_t> result;
  for (const Clock::time_point restart : restarts_)
    result.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(now - restart).count());
  return result;
}

void RestartLimit::restore(const std::vector<int64_t>& ages, Clock::time_point now) {
  restarts_.clear();
  for (const int64_t age : ages) restarts_.push_back(now - std::chrono::milliseconds(age));
}

}  // namespace troupe
