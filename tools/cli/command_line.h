#pragma once
// Parses a command line: the command and its flags. Used by both programs, so that a mistake is reported before
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

// The command in `arguments` (without the program's name), one of `commands`. Nothing if they ask for help or for
// docs/commands.md (`help --markdown`), which is then written to `out`. Throws ConfigError.
std::optional<CommandLine> parse_command_line(const std::vector<Command>& commands, const Words& arguments,
                                              std::ostream& out);

}  // namespace troupe
