#pragma once
// Which command a command line asks for, and with what. Used by both programs, so that a slip ends in one line before
// LibTorch is loaded. One thread.

#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace troupe {

struct CommandLine {
  Command command;
  Action action;                        // of the command
  std::map<std::string, Words> values;  // Flags::values()
};

// What `arguments` (without the program's name) ask for, which is one of `commands`; nothing when they asked for help,
// which is then written to `out`. Throws ConfigError.
std::optional<CommandLine> parse_command_line(const std::vector<Command>& commands, const Words& arguments,
                                              std::ostream& out);

}  // namespace troupe
