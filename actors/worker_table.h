#pragma once
// WorkerTable: sums up the reports of a run's workers. Each worker counts once, and memory stays bounded however many
// workers join and leave. Owned by stats; one thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/messages.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class WorkerTable {
 public:
  using Clock = std::chrono::steady_clock;
  // Beyond kApart workers, only the counts of silent ones are kept. Reports of more than kMost workers at a time are
  // dropped.
  static constexpr size_t kApart = 1000, kMost = 10'000;

  // `env_failures` and `retries` are the totals of earlier starts.
  WorkerTable(const RunConfig& config, uint64_t env_failures, uint64_t retries);

  // Adds a report. Returns why it is dropped if no worker of this run can have sent it, else nullopt.
  std::optional<std::string> add(const WorkerReport& report, Clock::time_point now);

  uint64_t env_failures() const { return total(&Counts::env_failures); }
  uint64_t retries() const { return total(&Counts::retries); }
  // Fills the figures of workers in the snapshot, but for env_failures, times and memory.
  void fill(StatsSnapshot& snapshot, Clock::time_point now) const;
  // Memory of the processes of workers that are not in the trainer's process, and of their children.
  struct Memory {
    uint64_t workers = 0, environments = 0, verifiers = 0;
  };
  Memory memory(Clock::time_point now) const;
  // Microseconds of all workers since the table exists, as in WorkerReport. `covered` is the time between the reports
  // of each worker: all that its other times are a part of.
  struct Times {
    uint64_t covered = 0, busy = 0, step = 0, credit_wait = 0, action_wait = 0;
  };
  const Times& times() const { return times_; }
  // Fills the figures that compare workers. A worker counts while it reports.
  void fill_spread(RecentFigures& recent, Clock::time_point now) const;
  // The newest error of any worker.
  const std::string& last_error() const { return last_error_; }

  // The reports and the time since each, for checkpoints of deterministic runs, where the sums in base_ are not needed:
  // all reports are kept.
  using Saved = std::vector<std::pair<WorkerReport, int64_t>>;
  Saved save(Clock::time_point now) const;
  void load(const Saved& reports, const std::string& last_error, Clock::time_point now);

 private:
  struct Counts : VerifierFigures {
    uint64_t env_failures = 0, retries = 0;
  };
  struct Seen {
    WorkerReport report;
    Clock::time_point at;
    Counts closed;  // this worker's counts that base_ already includes
    // Shares of its time, of about the last 10 s; unknown before its second report.
    double busy = kUnknown, credit_wait = kUnknown;
  };
  struct Silent {
    Counts counts, closed;
  };

  static Counts counts_of(const WorkerReport& report);
  static uint64_t open(const Counts& counts, const Counts& closed, uint64_t Counts::* count);
  Counts closed_of(const WorkerReport& report) const;
  void add_times(const WorkerReport& report, Seen& seen, Clock::time_point now);
  void set_silent_apart(Clock::time_point now);
  uint64_t total(uint64_t Counts::* count) const;
  uint64_t quarantined(Clock::time_point now) const;
  VerifierFigures verifier() const;
  // Of all workers; each counts its own prompts. Nothing in a run that draws prompts otherwise.
  std::optional<PromptSummary> prompts() const;

  RunConfig config_;
  Counts base_;                        // of earlier starts, and of workers whose counts are closed
  std::map<uint64_t, Seen> workers_;   // by number
  std::map<uint64_t, Silent> silent_;  // may report again: an environment step can take long
  std::optional<uint64_t> closed_;     // the highest number whose counts are closed
  Clock::time_point set_apart_at_;     // last search for silent workers
  std::string last_error_;
  Times times_;
};

}  // namespace troupe
