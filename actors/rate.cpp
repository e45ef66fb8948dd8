#include "actors/rate.h"

#include <algorithm>
#include <iterator>

#include "runtime/stats/snapshot.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kKept{60};

}  // namespace

void Rate::add(Clock::time_point now, uint64_t count) {
  if (!points_.empty() && points_.back().first == now) return;  // time stands still: training has ended
  points_.emplace_back(now, count);
  while (points_.size() > 2 && now - points_[1].first > kKept) points_.pop_front();
}

double Rate::over(Clock::time_point now, std::chrono::seconds window) const {
  if (points_.size() < 2) return kUnknown;
  auto first = points_.begin();
  while (std::next(first, 2) != points_.end() && now - std::next(first)->first >= window) ++first;
  const double span = std::chrono::duration<double>(points_.back().first - first->first).count();
  return span <= 0 ? kUnknown : static_cast<double>(points_.back().second - first->second) / span;
}

uint64_t Rate::grown() const {
  return points_.empty() ? 0 : points_.back().second - std::min(points_.back().second, points_.front().second);
}

}  // namespace troupe
