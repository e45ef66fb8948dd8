#pragma once
// The TokenRun of a process: read once, although checks, estimates and every worker of the process need it. Any thread.

#include <memory>

#include "actors/experience/answers/token_run.h"

namespace troupe {

// make_token_run(), or what it gave last in this process if the settings and the files are still the same.
std::shared_ptr<const TokenRun> shared_token_run(const RunConfig& config);

// A copy without the prompts. The process does not keep them for shared_token_run() either.
std::shared_ptr<const TokenRun> without_prompts(const TokenRun& run);

}  // namespace troupe
