#pragma once
// WorkerTable: what the workers of a run have reported, each counted once, however long the run and however many
// workers come and go. Owned by stats; one thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/messages.h"

namespace troupe {

class WorkerTable {
 public:
  using Clock = std::chrono::steady_clock;
  // Beyond kApart workers, only the counts of silent ones are kept. Reports of more than kMost workers at a time are
  // dropped.
  static constexpr size_t kApart = 1000, kMost = 10'000;

  // Counts begin at those of the starts before.
  WorkerTable(const RunConfig& config, uint64_t env_failures, uint64_t retries);

  // Why the report is dropped: another process sent what no worker of this run can say. Nothing when it counts.
  std::optional<std::string> add(const WorkerReport& report, Clock::time_point now);

  uint64_t env_failures() const { return total(&Counts::env_failures); }
  uint64_t retries() const { return total(&Counts::retries); }
  // Rows left out now.
  uint64_t quarantined(Clock::time_point now) const;
  // The newest error of any worker.
  const std::string& last_error() const { return last_error_; }

  // The reports with the time since each, and back. What was added up is not among them: deterministic runs add nothing
  // up.
  using Saved = std::vector<std::pair<WorkerReport, int64_t>>;
  Saved save(Clock::time_point now) const;
  void load(const Saved& reports, const std::string& last_error, Clock::time_point now);

 private:
  struct Counts {
    uint64_t env_failures = 0, retries = 0;
  };
  struct Seen {
    WorkerReport report;
    Clock::time_point at;
    Counts closed;  // what base_ has of this worker
  };
  struct Silent {
    Counts counts, closed;
  };

  static Counts counts_of(const WorkerReport& report);
  static uint64_t open(const Counts& counts, const Counts& closed, uint64_t Counts::* count);
  Counts closed_of(const WorkerReport& report) const;
  void set_silent_apart(Clock::time_point now);
  uint64_t total(uint64_t Counts::* count) const;

  RunConfig config_;
  Counts base_;                        // of the starts before, and of workers whose counts are closed
  std::map<uint64_t, Seen> workers_;   // by number
  std::map<uint64_t, Silent> silent_;  // may go on: a step of an environment can take long
  std::optional<uint64_t> closed_;     // the highest number whose counts are closed
  Clock::time_point set_apart_at_;     // when the silent ones were last looked for
  std::string last_error_;
};

}  // namespace troupe
