#include "actors/verdict_hold.h"

#include "runtime/stats/bottleneck.h"

namespace troupe {

Bottleneck VerdictHold::shown(const StatsSnapshot& snapshot, Clock::time_point now) {
  Bottleneck verdict = find_bottleneck(snapshot);
  if (!is_steady(snapshot)) {
    shown_.reset();
    next_.clear();
    return verdict;
  }
  if (!shown_) changed_ = now;
  if (!shown_ || shown_->what == verdict.what) {
    shown_ = verdict;
    next_.clear();
    return verdict;
  }
  if (next_ != verdict.what) {
    next_ = verdict.what;
    next_since_ = now;
  }
  if (!may_change(now)) return *shown_;
  changed_ = now;
  next_.clear();
  shown_ = verdict;
  return verdict;
}

bool VerdictHold::may_change(Clock::time_point now) const {
  if (now - started_ < kHold) return true;
  const bool starts = now - started_ < kApart;
  return now - next_since_ >= kHold && (starts || now - changed_ >= kApart);
}

}  // namespace troupe
