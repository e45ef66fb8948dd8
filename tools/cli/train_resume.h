#pragma once
// Begins a run in its folder, or resumes the one that the folder holds. Used by the main thread of `troupe train`.

#include <functional>
#include <optional>

#include "actors/config/run_config.h"
#include "actors/resume.h"
#include "actors/run_context.h"
#include "models/policy.h"
#include "runtime/run_folder/run_folder.h"
#include "runtime/stats/snapshot.h"
#include "tools/cli/init_from.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

// What begin_or_resume() calls.
struct BeginningCalls {
  std::function<void()> begins;  // once: the run is not finished and nothing refuses it, and what takes long comes next
  std::function<void(const WarmupUnderWay&)> warms_up;  // of a token run: at the start and every stats.interval_ms
};

// Where the run starts: at the newest checkpoint in `folder`, whose state `learner` and `context` then have; or at
// zero, with the weights in `initial`, which the folder then keeps, or with those that it keeps from an earlier start.
// Nothing if the run is finished, or if a signal stopped the warm-up of a token run. Opens the log and the metrics, and
// reports on the console and in the log what it found. Throws ConfigError when the checkpoint cannot be used.
std::optional<ReplayStart> begin_or_resume(RunFolder& folder, const RunConfig& config, Learner& learner,
                                           RunContext& context, const std::optional<InitialWeights>& initial,
                                           StopSignals& signals, const BeginningCalls& calls);

}  // namespace troupe
