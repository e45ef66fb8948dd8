#pragma once
// --set of commands that use a run and change nothing about it: where files of the run are now. Plain functions; any
// thread.

#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "tools/cli/flags.h"

namespace troupe {

void add_moved_files(Flags& flags, Words& into);

// Sets them. Throws ConfigError for a setting that is not the place of a file (file_settings()).
void set_moved_files(RunConfig& config, const std::vector<std::string>& moved);

}  // namespace troupe
