#pragma once
// ScorerTable: what the scorers of a run have computed. Memory stays bounded however many join and leave. It is not a
// ReceiverTable, which keeps entries of the lost to report rows by name, and weights, of which scorers have none. Owned
// by stats; one thread.

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "actors/messages.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class ScorerTable {
 public:
  static constexpr size_t kMost = 1000;  // that are counted apart

  void add(const InferenceReport& report);
  void add(const ReceiverGone& gone);

  uint64_t up() const;
  // Microseconds in handlers of all scorers since the table exists.
  uint64_t busy_us() const { return busy_us_; }
  void fill(StatsSnapshot& snapshot) const;

  // The counts of the earliest, and each later report with whether that scorer is gone.
  using Saved = std::pair<InferenceReport, std::vector<std::pair<InferenceReport, bool>>>;
  Saved save() const;
  void load(const Saved& saved);

 private:
  struct Entry {
    InferenceReport report;
    bool gone = false;  // its last report may come later
  };

  uint64_t busy_us_ = 0;
  InferenceReport earlier_;  // sums of those that have no entry any more
  std::map<InferenceIndex, Entry> scorers_;
  std::deque<float> latency_us_;
};

}  // namespace troupe
