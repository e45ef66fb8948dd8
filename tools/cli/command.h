#pragma once
// What a command of troupe is. One that needs no LibTorch is one file, tools/cli/NAME_command.cpp, which defines
// `Command NAME_command()`, and a line of the table in tools/cli/commands.cpp. One that computes with tensors is two:
// NAME_command.h with its flags and with what the small program troupe checks before LibTorch is loaded, and
// NAME_command.cpp with the rest, which troupe-learn does; it also has a line in the table of
// tools/cli/troupe_learn.cpp.

#include <functional>
#include <string_view>
#include <type_traits>

#include "tools/cli/flags.h"

namespace troupe {

// Does what was asked for and returns the exit code: 0 done, 130 after a signal. Throws ConfigError for a user's
// mistake.
using Action = std::function<int()>;

struct Command {
  std::string_view name;
  std::string_view summary;   // in `troupe --help`
  std::string_view examples;  // in `troupe NAME --help`: lines that begin with two spaces
  // Declares the flags, reads them, and returns what to do. Throws ConfigError or Flags::HelpAsked.
  Action (*parse)(Flags& flags) = nullptr;
  // The action only checks; then troupe becomes troupe-learn, which does the command.
  bool done_by_learn = false;
};

// A Command::parse: `read` makes the command's options from the flags, `run` does what they say and returns the exit
// code, or nothing where that is always 0.
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
