#pragma once
// CurvePoints: decides when a point is added to a run's curves, by the number of samples produced so far. Plain logic;
// one thread. Stats adds further points by time.
//
// A grid step is at least the samples of one update. Each of the first 64 grid steps makes a point; after that a point
// is made when the samples are 1/64 beyond those of the last point, so about 64 points for each e-fold of the run's
// length. An update needs one grid step of new samples, so at least min(64, updates) points are made, unless single
// rollouts cover several steps.

#include <algorithm>
#include <cstdint>

#include "actors/config/run_config.h"

namespace troupe {

class CurvePoints {
 public:
  // `produced` is the number of samples at the start (after a resume, not 0).
  CurvePoints(const RunConfig& config, uint64_t produced) : step_(step_of(config)), last_(produced / step_) {}

  // Whether a point is due. Call once for every rollout.
  bool take_due(uint64_t produced) {
    const uint64_t now = produced / step_;
    if (now < last_ + std::max<uint64_t>(1, last_ / kDense)) return false;
    last_ = now;
    return true;
  }

  static constexpr uint64_t kDense = 64;

  template <class I> friend typename I::result_type inspect(I& f, CurvePoints& x) { return f(x.last_); }

 private:
  // With reuse a sample is used in max_reuse updates, so new samples for one update suffice for that many.
  static uint64_t step_of(const RunConfig& config) {
    const auto uses = config.replay.mode == "reuse" ? static_cast<uint64_t>(config.replay.max_reuse) : 1;
    return std::max<uint64_t>(1, static_cast<uint64_t>(config.trainer.super_batch) / std::max<uint64_t>(1, uses));
  }

  uint64_t step_;
  uint64_t last_;  // the step of the last point
};

}  // namespace troupe
