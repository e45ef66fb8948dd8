#pragma once
// The commands of the program troupe, in the order of its help.

#include <vector>

#include "tools/cli/command.h"

namespace troupe {

std::vector<Command> all_commands();

}  // namespace troupe
