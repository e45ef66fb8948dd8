// The program troupe: workers, nodes and everything else that needs no LibTorch. The other commands are checked here,
// in milliseconds, and then run by troupe-learn.

#include <iostream>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/launch.h"

int main(int count, char** arguments) {
  return troupe::run_program([&] {
    const auto line = troupe::parse_command_line(troupe::all_commands(), {arguments + 1, arguments + count}, std::cout);
    if (!line) return 0;
    const int code = line->action();
    if (line->command.done_by_learn) troupe::continue_as_learn(arguments);
    return code;
  });
}
