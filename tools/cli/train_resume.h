#pragma once
// Begins a run in its folder, or resumes the one that the folder holds. Used by the main thread of `troupe train`.

#include <functional>
#include <optional>

#include "actors/config/run_config.h"
#include "actors/resume.h"
#include "actors/run_context.h"
#include "models/policy.h"
#include "runtime/run_folder/run_folder.h"
#include "tools/cli/init_from.h"

namespace troupe {

// Where the run starts: at the newest checkpoint in `folder`, whose state `learner` and `context` then have; or at
// zero, with the weights in `initial`, which the folder then keeps, or with those that it keeps from an earlier start.
// Nothing if the run is finished. Opens the log and the metrics, and reports on the console and in the log what it
// found. Calls `begins` once, when the run is not finished and nothing refuses it. Throws ConfigError when the
// checkpoint cannot be used.
std::optional<ReplayStart> begin_or_resume(RunFolder& folder, const RunConfig& config, Learner& learner,
                                           RunContext& context, const std::optional<InitialWeights>& initial,
                                           const std::function<void()>& begins);

}  // namespace troupe
