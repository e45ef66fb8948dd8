#pragma once
// VerdictTimes: for how long a run had each verdict on its bottleneck. Plain logic; one thread.

#include <map>
#include <string>
#include <vector>

#include "runtime/stats/snapshot.h"

namespace troupe {

class VerdictTimes {
 public:
  // The reports and points of a run. The time since the newest one before counts for the verdict of this one; an older
  // one than that counts for nothing.
  void add(const StatsSnapshot& report);
  // Of the time of training, the share of each verdict, by the name of its resource: "trainer", "none", "unknown".
  // Empty without times.
  std::map<std::string, double> shares() const;
  struct Verdict {
    Bottleneck told;   // as it was last
    double share = 0;  // of the time of training
  };
  // Those that name something and have 5 % at least, the one that was told for longest first.
  std::vector<Verdict> longest() const;
  // The first two, and the advice of the first: "training 71 % of the time, few environments 20 %; a faster device".
  // Empty without any.
  std::string text() const;

 private:
  double reported_ = kUnknown;  // seconds of the last report
  std::map<std::string, double> seconds_;
  std::map<std::string, Bottleneck> told_;
};

}  // namespace troupe
