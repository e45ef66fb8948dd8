#pragma once
// ReceiverTable: batches and rows that each inference actor has served, and the weights it has applied. Memory stays
// bounded however many join and leave. Owned by stats; one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class ReceiverTable {
 public:
  // The newest kGone of the lost receivers keep separate entries. There are at most kMost entries.
  static constexpr size_t kGone = 100, kMost = 1000;
  // The name under which the rows of the others are reported.
  static constexpr const char* kEarlier = "earlier inference actors";
  static constexpr int kLooks = 2;

  // In a deterministic run every receiver keeps its entry: they are its state.
  explicit ReceiverTable(bool deterministic) : deterministic_(deterministic) {}

  // Messages of receivers without an entry that were lost long ago, and those beyond kMost receivers, are ignored.
  void add(const InferenceReport& report);
  // Whether the receiver had applied weights before. Its first ones may be older than itself.
  bool add(const Applied& applied);
  void add(const ReceiverGone& gone);

  // Microseconds in handlers of all receivers since the table exists.
  uint64_t busy_us() const { return busy_us_; }
  // Whether any has reported.
  bool heard() const { return heard_; }
  // Batches, rows and weights of all receivers.
  void fill(StatsSnapshot& snapshot, PolicyVersion published) const;
  // Call once an interval. Returns one line for each receiver that falls behind: for kLooks checks in a row it was
  // further behind than before, or behind without having applied anything.
  std::vector<std::string> behind(PolicyVersion published);

  // Each report, and whether that receiver is gone.
  using Saved = std::vector<std::pair<InferenceReport, bool>>;
  Saved save() const;
  void load(const Saved& receivers);

 private:
  struct Receiver {
    InferenceReport report;
    std::optional<PolicyVersion> applied;
    bool gone = false;
    uint64_t behind_before = 0;  // at the last check, like `applied_before`
    std::optional<PolicyVersion> applied_before;
    int strikes = 0;
  };

  Receiver* find(InferenceIndex inference_index);

  bool deterministic_;
  uint64_t busy_us_ = 0;
  bool heard_ = false;
  std::map<InferenceIndex, Receiver> receivers_;
  // The sums of those without an entry, with the highest of their indices.
  std::optional<InferenceReport> earlier_;
};

}  // namespace troupe
