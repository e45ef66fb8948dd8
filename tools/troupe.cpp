// The program troupe: workers, nodes and all that needs no LibTorch. The other commands are checked here, in milliseconds, and
// then done by troupe-learn.

#include <iostream>

#include "runtime/errors.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/config_lookup.h"
#include "tools/launch.h"

namespace troupe {
namespace {

struct Run {
  char** arguments;

  int operator()(const ConfigOptions& options) const { return run_config(options); }
  int operator()(const EnvsOptions& options) const { return run_envs(options); }
  int operator()(const VersionOptions& options) const { return run_version(options); }
  int operator()(const TrainOptions& options) const {
    load_run_config(options.config, options.overrides, options.seed);
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
  int operator()(const InferenceOptions&) const { continue_as_learn(arguments); }
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
