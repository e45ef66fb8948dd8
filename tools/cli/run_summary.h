#pragma once
// What summary.json says of a run. A plain function; any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "actors/supervisor.h"
#include "runtime/run_folder/best_checkpoints.h"
#include "runtime/stats/snapshot.h"
#include "tools/cli/verdict_times.h"

namespace troupe {

struct RunFacts {
  const RunConfig& config;
  const ReplayStart& start;
  const StatsSnapshot& last;  // shown or recorded
  const RunOutcome& outcome;
  const WarmupState& warmup;
  std::optional<Evaluation> evaluation = {};  // the newest that did not fail
  double trained_seconds = 0;                 // of this start, to the end of training
  double after_training = 0;                  // and from there to its end
  double warmup_seconds = 0;                  // of this start, from its begin to the end of the warm-up
  double mean_speed = kUnknown;               // as recorded_speed() says
  std::optional<CheckpointScore> best = {};
  uint64_t lost_writes = 0, lost_log_lines = 0;
  uint64_t expected_memory = 0;  // 0: not known
  uint64_t undone_updates = 0;
  bool has_checkpoint = false;
  VerdictTimes verdicts = {};
};

// How a run ended, in one word or the name of a setting.
std::string ended_with(const RunOutcome& outcome);

// The text of summary.json: what counts over all starts at its top, what is of the last start alone in "last_start".
std::string run_summary(const RunFacts& facts);

}  // namespace troupe
