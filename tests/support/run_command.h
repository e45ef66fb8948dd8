#pragma once
// Runs a program to its end and keeps what it wrote; for tests of whole programs.

#include <string>
#include <vector>

namespace troupe::test {

struct CommandResult {
  int exit_code = 0;  // 128 + signal number when a signal ended it
  std::string out;
  std::string err;
};

// `command[0]` is a path. Blocks until the program ends.
CommandResult run_command(const std::vector<std::string>& command);

// The path of a program of this build, from TROUPE_BUILD_DIR.
std::string built_program(const std::string& name);

}  // namespace troupe::test
