// The program troupe: workers, nodes and all that needs no LibTorch. The other commands are checked here, in milliseconds, and
// then done by troupe-learn.

#include <csignal>
#include <iostream>

#include "runtime/base/errors.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/launch.h"
#include "tools/cli/machine_check.h"
#include "tools/cli/stop_signals.h"

namespace troupe {
namespace {

// A deterministic run is one process without a network.
void require_no_addresses(const TrainOptions& options) {
  const std::string reason = " has no effect with deterministic true; leave it out";
  if (options.listen != kLoopbackAnyPort) throw ConfigError("--listen: " + options.listen.text() + reason);
  if (options.stats != kLoopbackAnyPort) throw ConfigError("--stats: " + options.stats.text() + reason);
}

struct Run {
  char** arguments;

  int operator()(const ConfigOptions& options) const { return run_config(options); }
  int operator()(const EnvsOptions& options) const { return run_envs(options); }
  int operator()(const VersionOptions& options) const { return run_version(options); }
  int operator()(const TrainOptions& options) const {
    std::signal(SIGPIPE, SIG_IGN);  // as in run_train
    const RunConfig config = load_run_config(options.config, options.overrides, options.seed);
    if (config.deterministic) require_no_addresses(options);
    require_room_for_folder(options, config);
    const EnvSpec env = environment_of(config);
    const Machine machine = Machine::here();
    const std::string shortage = memory_shortage(config, env, machine);
    if (!shortage.empty()) throw ConfigError(shortage);
    for (const std::string& warning : machine_warnings(config, env, machine)) warn(warning);
    hold_stop_signals();  // nobody takes them before troupe-learn does
    continue_as_learn(arguments);
  }
  int operator()(const EvalOptions& options) const {
    require_run_folder(options.run_dir);
    continue_as_learn(arguments);
  }
  int operator()(const PlayOptions& options) const {
    require_run_folder(options.run_dir);
    continue_as_learn(arguments);
  }
  int operator()(const InferenceOptions&) const {
    hold_stop_signals();
    continue_as_learn(arguments);
  }
  int operator()(const BenchOptions&) const { continue_as_learn(arguments); }
  int operator()(const SimulateOptions& options) const { return run_simulate(options); }
  int operator()(const WorkerOptions& options) const { return run_worker(options); }
  int operator()(const NodeOptions& options) const { return run_node(options); }
  int operator()(const SpawnOptions& options) const { return run_spawn(options); }
};

}  // namespace
}  // namespace troupe

int main(int count, char** arguments) {
  return troupe::run_program([&] {
    const auto options = troupe::parse_command_line({arguments + 1, arguments + count}, std::cout);
    return options ? std::visit(troupe::Run{arguments}, *options) : 0;
  });
}
