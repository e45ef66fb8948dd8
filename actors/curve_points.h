#pragma once
// CurvePoints: which moments of a run become points of its curves, by the samples that were produced so far. Plain
// logic; one thread. Stats adds points by time.
//
// The samples of one update at least are one step of the grid. The first 64 steps that samples pass make a point each,
// later only every step that is 1/64 further than the last point: 64 points for every e-fold of the run's length,
// however long it gets. An update needs one step of new samples, so at least min(64, updates) points are made, unless
// single rollouts pass several steps.

#include <algorithm>
#include <cstdint>

#include "actors/config/run_config.h"

namespace troupe {

class CurvePoints {
 public:
  // `produced` is what the run starts from.
  CurvePoints(const RunConfig& config, uint64_t produced) : step_(step_of(config)), last_(produced / step_) {}

  // Whether a point is due; asked at every rollout. True at most once for each.
  bool take_due(uint64_t produced) {
    const uint64_t now = produced / step_;
    if (now < last_ + std::max<uint64_t>(1, last_ / kDense)) return false;
    last_ = now;
    return true;
  }

  static constexpr uint64_t kDense = 64;

  template <class I> friend typename I::result_type inspect(I& f, CurvePoints& x) { return f(x.last_); }

 private:
  // With reuse a sample serves max_reuse updates, so that many come with the samples of one.
  static uint64_t step_of(const RunConfig& config) {
    const auto uses = config.replay.mode == "reuse" ? static_cast<uint64_t>(config.replay.max_reuse) : 1;
    return std::max<uint64_t>(1, static_cast<uint64_t>(config.trainer.super_batch) / std::max<uint64_t>(1, uses));
  }

  uint64_t step_;
  uint64_t last_;  // the step of the last point
};

}  // namespace troupe
