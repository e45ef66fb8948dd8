#pragma once
// docs/commands.md. Pure; any thread.

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace troupe {

// What `command` declares.
CommandTexts texts_of(const Command& command);

// A page in Markdown about these commands: usage, arguments, options, examples and exit codes.
std::string command_reference(const std::vector<Command>& commands);

}  // namespace troupe
