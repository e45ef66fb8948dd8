// The program troupe-learn: the commands that compute with tensors. Users start it through troupe.

#include "tools/cli/eval_command.h"
#include "tools/cli/inference_command.h"
#include "tools/cli/play_command.h"
#include "tools/cli/rank_command.h"
#include "tools/cli/second_program.h"
#include "tools/cli/train_command.h"
#include "tools/cli/warmup_command.h"

namespace troupe {
namespace {

// One line per command.
std::vector<Command> learning_commands() {
  std::vector<Command> commands;
  commands.push_back(done<read_train, run_train>(train_command()));
  commands.push_back(done<read_warmup, run_train>(warmup_command()));
  commands.push_back(done<read_inference, run_inference>(inference_command()));
  commands.push_back(done<read_scorer, run_scorer>(scorer_command()));
  commands.push_back(done<read_rank, run_rank>(rank_command()));
  commands.push_back(done<read_eval, run_eval>(eval_command()));
  commands.push_back(done<read_play, run_play>(play_command()));
  return commands;
}

}  // namespace
}  // namespace troupe

int main(int count, char** arguments) {
  return troupe::run_second_program("troupe-learn", troupe::learning_commands(), count, arguments);
}
