#pragma once
// LearnerFigures: combines the metrics of the updates since the last report. Owned by stats; one thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/caf/inspect.h"

namespace troupe {

class LearnerFigures {
 public:
  // The metrics of one update.
  void add(const std::map<std::string, double>& metrics);
  // One figure per metric for the updates since the last call, as the metric's `summary` says
  // (models/learning/metrics.h); NaN when no update had a finite value. Without an update since: the figures of the
  // last call.
  std::map<std::string, double> take();

  template <class I> friend typename I::result_type inspect(I& f, LearnerFigures& x) {
    return f(x.sums_, x.updates_, x.taken_);
  }

 private:
  struct Sum {
    WireDouble value;
    uint64_t count = 0;  // number of finite values summed
    template <class I> friend typename I::result_type inspect(I& f, Sum& x) { return f(x.value, x.count); }
  };
  std::map<std::string, Sum> sums_;  // since the last take()
  uint64_t updates_ = 0;             // likewise
  std::map<std::string, WireDouble> taken_;
};

}  // namespace troupe
