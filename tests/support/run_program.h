#pragma once
// Runs another program from a test.

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <stdexcept>
#include <string>

namespace troupe::test {

struct ProgramResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;  // what it wrote to stdout, and to stderr where the command line says 2>&1
};

// Runs a shell command line and waits for its end.
inline ProgramResult run_program(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  ProgramResult result;
  char buffer[4096];
  while (size_t size = ::fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, size);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

// The Python to test with: $TROUPE_PYTHON (set by CTest), else python3.
inline std::string test_python() {
  const char* chosen = ::getenv("TROUPE_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : "python3";
}

inline bool python_has(const std::string& module) {
  return run_program(test_python() + " -c 'import " + module + "' 2>/dev/null").exit_code == 0;
}

}  // namespace troupe::test
