#pragma once
// StatsSnapshot: everything the stats actor knows at one moment: what the console, the JSON socket, metrics.jsonl, TensorBoard
// and summary.json show. A plain value. An empty one (no data yet) is valid; numbers that are not known are NaN.

#include <cstdint>
#include <limits>
#include <map>
#include <string>

namespace troupe {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct StatsSnapshot {
  double elapsed_seconds = 0;
  double progress = 0;           // [0, 1] of the run's budget
  double eta_seconds = kUnknown;

  uint64_t env_steps = 0;
  double env_steps_per_second = kUnknown;     // over the last 10 s
  double env_steps_per_second_60 = kUnknown;  // over the last 60 s
  uint64_t updates = 0;
  double updates_per_second = kUnknown;
  double seconds_to_first_update = kUnknown;
  double reuse = kUnknown;       // updates that use an average sample

  uint64_t produced = 0, trained = 0, dropped_stale = 0, dropped_full = 0, lost_in_crash = 0, waiting = 0;  // the ledger
  double lag_p50 = kUnknown, lag_p95 = kUnknown, lag_max = kUnknown;  // of samples used so far
  uint64_t lag_bound = 0;

  double batch_rows_p50 = kUnknown;
  uint64_t batches_full = 0, batches_timeout = 0, batches_all_waiting = 0, batches_failed = 0;
  double inference_p50_ms = kUnknown, inference_p99_ms = kUnknown;
  double trainer_wait_fraction = kUnknown;

  uint64_t episodes = 0;
  double return_mean = kUnknown, return_std = kUnknown, length_mean = kUnknown, success_rate = kUnknown;  // of the window
  std::map<std::string, double> learner;  // metrics of the last update

  uint64_t evaluations = 0;
  uint64_t eval_episodes = 0;
  uint64_t eval_version = 0;
  double eval_return_mean = kUnknown, eval_return_std = kUnknown, eval_length_mean = kUnknown, eval_success_rate = kUnknown;

  uint64_t workers_up = 0, workers_total = 0;
  std::map<uint64_t, uint64_t> weights_behind;  // published - applied, by receiver
  uint64_t env_failures = 0, request_retries = 0, quarantined = 0, skipped_steps = 0;
  uint64_t rss_bytes = 0, peak_rss_bytes = 0;
  std::string last_error;
};

}  // namespace troupe
