#include "tools/cli/commands.h"

#include "tools/cli/bench_command.h"
#include "tools/cli/eval_command.h"
#include "tools/cli/inference_command.h"
#include "tools/cli/play_command.h"
#include "tools/cli/rank_command.h"
#include "tools/cli/simulate_command.h"
#include "tools/cli/train_command.h"
#include "tools/cli/warmup_command.h"

namespace troupe {

// One line per command, in the order of the help: those for maintainers last.
#define TROUPE_COMMANDS(line) \
  line(train_command);        \
  line(warmup_command);       \
  line(sweep_command);        \
  line(worker_command);       \
  line(inference_command);    \
  line(scorer_command);       \
  line(rank_command);         \
  line(node_command);         \
  line(spawn_command);        \
  line(eval_command);         \
  line(play_command);         \
  line(export_command);       \
  line(runs_command);         \
  line(plot_command);         \
  line(envs_command);         \
  line(config_command);       \
  line(metrics_command);      \
  line(top_command);          \
  line(dash_command);         \
  line(bench_command);        \
  line(version_command);      \
  line(simulate_command);

#define TROUPE_DECLARE(command) Command command()
TROUPE_COMMANDS(TROUPE_DECLARE)

std::vector<Command> all_commands() {
  std::vector<Command> commands;
#define TROUPE_ADD(command) commands.push_back(command())
  TROUPE_COMMANDS(TROUPE_ADD)
  return commands;
}

}  // namespace troupe
