#pragma once
// Recognises a run that has nothing left to do. Plain functions; any thread.

#include <string>

#include "actors/config/run_config.h"
#include "actors/replay_buffer.h"
#include "runtime/run_folder/run_folder.h"

namespace troupe {

// One line for a run that ended in order at a limit of the `stop` section which it still has reached: the limit, and
// how to train further. Empty when there is something to do, which includes writing again what a later start left
// behind when it was killed. `start` is where the run resumes. A deterministic run always has: its last metrics are in
// no file but its checkpoint.
std::string finished_line(const RunFolder& folder, const RunConfig& config, const ReplayStart& start);

}  // namespace troupe
