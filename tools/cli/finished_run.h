#pragma once
// Recognises a finished run. Plain functions; any thread.

#include <cstdint>
#include <string>

#include "actors/config/run_config.h"
#include "actors/replay_buffer.h"
#include "runtime/run_folder/run_folder.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// For a run that ended normally at a limit of the section `stop`, and that has still reached it: one line with the
// limit and how to train further. Empty when the run has something left to do, which includes rewriting the files that
// a later start had not finished when it was killed. `start` is where the run resumes. A deterministic run is never
// finished, because its last metrics are only in its checkpoint.
std::string finished_line(const RunFolder& folder, const RunConfig& config, const ReplayStart& start);

// One line for a run that resumes after `updates` although its last start ended after more: its newest checkpoint is
// missing. Empty for any other.
std::string missing_checkpoint_line(const RunFolder& folder, uint64_t updates);

// The newest evaluation of the earlier starts, as JSON; empty without one. `saved` is that of the checkpoint after
// `updates`, which was written before the last evaluation of its start; summary.json has that one.
std::string newest_evaluation(const RunFolder& folder, const std::string& saved, uint64_t updates);
// The same for the evaluations that failed.
FailedEvaluations failed_evaluations(const RunFolder& folder, const FailedEvaluations& saved, uint64_t updates);

}  // namespace troupe
