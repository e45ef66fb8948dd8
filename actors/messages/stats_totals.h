#pragma once
// What stats has counted over all starts of a run. Plain data.

#include <cstdint>
#include <map>
#include <string>

#include "runtime/stats/evaluation_figures.h"

namespace troupe {

// Totals over all starts of a run that replay does not count. Checkpoints contain them.
struct StatsTotals {
  double elapsed_seconds = 0;
  uint64_t episodes = 0;
  uint64_t env_failures = 0;
  uint64_t request_retries = 0;
  uint64_t skipped_steps = 0;
  uint64_t starts = 0;
  uint64_t answer_tokens = 0, trained_tokens = 0;  // see AnswerFigures
  std::string window;                              // the last stats.window episodes, as bytes
  std::string alarms;                              // what the alarms compare with, as bytes
  std::string evaluation;                          // the newest one, as to_json() gives it; empty without one
  FailedEvaluations failed_evaluations;            // with the newest one of any start
  // The run after each update whose evaluation has not ended, as a line of metrics.jsonl, by update.
  std::map<uint64_t, std::string> open_evaluations;
};

}  // namespace troupe
