#pragma once
// The defaults of a config for this start of the program. Reads the environment; any thread.

#include "actors/config/run_config.h"

namespace troupe {

// With the interpreter in which troupe.train runs, which sets TROUPE_ENV_PYTHON to it.
RunConfig base_config();

// Restores the default of an interpreter that the run does not use, so that its config.json does not depend on how it
// was started.
void forget_unused_python(RunConfig& config);

// A task in Python scores the answers itself unless a verifier is given.
void use_python_task(RunConfig& config);

}  // namespace troupe
