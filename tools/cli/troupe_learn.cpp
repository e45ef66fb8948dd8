// The program troupe-learn: the commands that compute with tensors. Users start it through troupe.

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include <c10/util/Logging.h>

#include "runtime/base/errors.h"
#include "tools/bench/bench_command.h"
#include "tools/cli/command_line.h"
#include "tools/cli/eval_command.h"
#include "tools/cli/inference_command.h"
#include "tools/cli/launch.h"
#include "tools/cli/play_command.h"
#include "tools/cli/train_command.h"

namespace troupe {
namespace {

// A command of troupe that does the work, where troupe itself only checks the flags.
template <auto read, auto run>
Command done(Command command) {
  command.parse = read_then_run<read, run>;
  return command;
}

// One line per command.
std::vector<Command> learning_commands() {
  std::vector<Command> commands;
  commands.push_back(done<read_train, run_train>(train_command()));
  commands.push_back(done<read_inference, run_inference>(inference_command()));
  commands.push_back(done<read_eval, run_eval>(eval_command()));
  commands.push_back(done<read_play, run_play>(play_command()));
  commands.push_back(done<read_bench, run_bench>(bench_command()));
  return commands;
}

int run(const Words& words) {
  const std::vector<Command> commands = learning_commands();
  const auto is_first = [&](const Command& command) { return !words.empty() && words.front() == command.name; };
  if (std::ranges::none_of(commands, is_first))
    throw ConfigError("the program troupe runs this command, not troupe-learn");
  const auto line = parse_command_line(commands, words, std::cout);
  return line ? line->action() : 0;
}

}  // namespace
}  // namespace troupe

int main(int count, char** arguments) {
  // Our log reports failed connections and transfers. c10d would print a C++ backtrace for every connection that sends
  // garbage to the weights port. A value that the user has set is kept.
  setenv("GLOO_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();  // reads the variable; Python's torch does this by itself, a C++ program must call it
  return troupe::run_program([&] { return troupe::run({arguments + 1, arguments + count}); });
}
