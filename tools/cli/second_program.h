#pragma once
// The programs that users start through troupe: troupe-learn and troupe-bench. Each runs some of troupe's commands.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Logging.h>

#include "runtime/base/errors.h"
#include "tools/cli/command_line.h"
#include "tools/cli/launch.h"

namespace troupe {

// A command of troupe that does the work, where troupe itself only checks the flags.
template <auto read, auto run>
Command done(Command command) {
  command.parse = read_then_run<read, run>;
  return command;
}

// The main function of the program `name`, which runs these commands. Returns the exit code.
inline int run_second_program(const std::string& name, const std::vector<Command>& commands, int count,
                              char** arguments) {
  // Our log reports failed connections and transfers. c10d would print a C++ backtrace for every connection that sends
  // garbage to the weights port. A value that the user has set is kept.
  setenv("GLOO_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();  // reads the variable; Python's torch does this by itself, a C++ program must call it
  return run_program([&] {
    const Words words(arguments + 1, arguments + count);
    const auto is_first = [&](const Command& command) { return !words.empty() && words.front() == command.name; };
    if (std::ranges::none_of(commands, is_first))
      throw ConfigError("the program troupe runs this command, not " + name);
    const auto line = parse_command_line(commands, words, std::cout);
    return line ? line->action() : 0;
  });
}

}  // namespace troupe
