#pragma once
// A command of troupe. One that needs no LibTorch is one file, tools/cli/NAME_command.cpp, which defines
// `Command NAME_command()`, a line in the table in tools/cli/commands.cpp and one in tools/CMakeLists.txt. One that
// computes with tensors has two files: NAME_command.h with its flags and with the checks that the program troupe makes
// before LibTorch is loaded, and NAME_command.cpp with the rest, which the program troupe-learn runs; it also has a
// line in the table in tools/cli/troupe_learn.cpp. The commands that measure and test troupe itself are likewise run by
// troupe-bench (tools/bench/troupe_bench.cpp), which users do not need to build.

#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tools/cli/command_help.h"
#include "tools/cli/flags.h"

namespace troupe {

// Runs the command and returns the exit code. Throws ConfigError for a user's mistake.
using Action = std::function<int()>;

inline constexpr std::string_view kLearnProgram = "troupe-learn";
inline constexpr std::string_view kBenchProgram = "troupe-bench";

struct Command {
  std::string_view name;
  std::string_view summary;   // in `troupe --help`
  std::string_view examples;  // in `troupe NAME --help`: lines that begin with two spaces
  std::vector<ExitCode> exit_codes;
  // Declares the flags, reads them, and returns the action. Throws ConfigError or Flags::HelpAsked.
  Action (*parse)(Flags& flags) = nullptr;
  // If not empty, the action only checks; then troupe becomes this program of its own folder, which runs the command.
  std::string_view done_by = {};
  // A tool for those who change troupe: under a heading of its own in `troupe --help`.
  bool for_maintainers = false;
};

// A Command::parse: `read` makes the command's options from the flags. `run` runs the command with them and returns the
// exit code, or nothing if that is always 0.
template <auto read, auto run>
Action read_then_run(Flags& flags) {
  return [options = read(flags)] {
    if constexpr (std::is_void_v<decltype(run(options))>) {
      run(options);
      return 0;
    } else {
      return run(options);
    }
  };
}

}  // namespace troupe
