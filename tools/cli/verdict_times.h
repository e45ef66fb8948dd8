#pragma once
// VerdictTimes: for how long a run had each verdict on its bottleneck. Plain logic; one thread.

#include <map>
#include <string>
#include <vector>

#include "runtime/stats/snapshot.h"

namespace troupe {

class VerdictTimes {
 public:
  // The reports of a run, in their order. The time since the one before counts for the verdict of this one.
  void add(const StatsSnapshot& report);
  // Of the time of training, the share of each verdict, by the name of its resource: "trainer", "none", "unknown".
  // Empty without times.
  std::map<std::string, double> shares() const;
  struct Verdict {
    std::string what;  // as it was told last, Bottleneck::what
    double share = 0;  // of the time of training
  };
  // Those that name something and have 5 % at least, the one that was told for longest first.
  std::vector<Verdict> longest() const;
  // The first two: "training 71 % of the time, few environments 20 %". Empty without any.
  std::string text() const;

 private:
  double reported_ = kUnknown;  // seconds of the last report
  std::map<std::string, double> seconds_;
  std::map<std::string, std::string> told_;  // Bottleneck::what
};

}  // namespace troupe
