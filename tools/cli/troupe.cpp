// The program troupe: workers, nodes and everything else that needs no LibTorch. The other commands are checked here,
// in milliseconds, and then run by troupe-learn or troupe-bench.

#include <iostream>

#include "envs/c_abi/host_messages.h"
#include "envs/c_abi/library_host.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/launch.h"

int main(int count, char** arguments) {
  return troupe::run_program([&] {
    if (count == 2 && arguments[1] == troupe::kHostWord) troupe::run_library_host();
    const auto line = troupe::parse_command_line(troupe::all_commands(), {arguments + 1, arguments + count}, std::cout);
    if (!line) return 0;
    const int code = line->action();
    if (!line->command.done_by.empty()) troupe::continue_as(line->command.done_by, arguments);
    return code;
  });
}
