// The program troupe: workers, nodes and everything else that needs no LibTorch. The other commands are checked here,
// in milliseconds, and then run by troupe-learn or troupe-bench.

#include <iostream>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/launch.h"

int main(int count, char** arguments) {
  return troupe::run_program([&] {
    const auto line = troupe::parse_command_line(troupe::all_commands(), {arguments + 1, arguments + count}, std::cout);
    if (!line) return 0;
    const int code = line->action();
    if (!line->command.done_by.empty()) troupe::continue_as(line->command.done_by, arguments);
    return code;
  });
}
