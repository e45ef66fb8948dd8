#pragma once
// The command line as checked options. Used by both programs, so that a slip ends in one line before LibTorch is loaded.

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/options.h"

namespace troupe {

// What `arguments` (without the program's name) ask for; nothing when they asked for help, which is then written to `out`.
// Throws ConfigError.
std::optional<Options> parse_command_line(const std::vector<std::string>& arguments, std::ostream& out);

// "host:port" or "[ipv6]:port"; `flag` begins every error. Throws ConfigError.
Address parse_address(std::string_view flag, const std::string& text);
// The same for a place to listen at: a port alone is on loopback, and port 0 is any free port.
Address parse_listen_address(std::string_view flag, const std::string& text);

}  // namespace troupe
