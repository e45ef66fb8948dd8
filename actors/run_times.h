#pragma once
// RunTimes: makes the histograms of snapshots. Owned by stats; one thread.

#include <optional>
#include <string>

#include "actors/messages.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class RunTimes {
 public:
  void add(const InferenceReport& report);
  // Why the times of the report are dropped: no worker can have measured them. Nothing when they count.
  std::optional<std::string> add(const WorkerReport& report);
  void add(const ReplayReport& report);
  void add(const UpdateMessage& update);
  void fill(StatsSnapshot& snapshot) const { snapshot.histograms = histograms_; }

  // Of deterministic runs, whose times are unknown: the rest, and back.
  std::string save() const;
  void load(const std::string& bytes);

 private:
  RunHistograms histograms_;
};

}  // namespace troupe
