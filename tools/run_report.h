#pragma once
// Where a real run writes: run folder, JSON socket, console. Used by the recorder's thread while the run goes on, and by the
// main thread after it ended.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/recorder.h"
#include "actors/supervisor.h"
#include "runtime/run_folder.h"
#include "runtime/stats_snapshot.h"
#include "runtime/stats_socket.h"

namespace troupe {

// Scalar of a deterministic run's checkpoints: how many lines of metrics.jsonl came before it.
constexpr const char* kMetricsLines = "metrics.lines";

class RunReport : public RunSink {
 public:
  // `first_env_steps` is what the run starts from: those of the checkpoint after a resume.
  RunReport(RunFolder& folder, StatsSocket* socket, const RunConfig& config, uint64_t first_env_steps);

  void save(const Checkpoint& checkpoint) override;
  void report(const StatsSnapshot& snapshot) override;

  // After the run ended: summary.json, and the closing lines on the console.
  void finish(const RunOutcome& outcome, double wall_seconds);

 private:
  StatsSnapshot with_times(StatsSnapshot snapshot);

  RunFolder& folder_;
  StatsSocket* socket_;
  RunConfig config_;
  uint64_t first_env_steps_;
  StatsSnapshot last_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now(), reported_ = begun_;
  std::optional<std::pair<uint64_t, uint64_t>> shown_;  // environment steps and updates of the last report
  bool terminal_;
  size_t lines_drawn_ = 0;
};

}  // namespace troupe
