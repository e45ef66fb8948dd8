#pragma once
// One function per subcommand. Each returns the exit code (0 done, 130 after a signal) and throws ConfigError for a user's mistake.

#include "tools/cli/options.h"

namespace troupe {

// In the program troupe, which does not link LibTorch.
int run_worker(const WorkerOptions& options);
int run_node(const NodeOptions& options);
int run_spawn(const SpawnOptions& options);
int run_envs(const EnvsOptions& options);
int run_config(const ConfigOptions& options);
int run_version(const VersionOptions& options);
int run_simulate(const SimulateOptions& options);

// In the program troupe-learn, which does.
int run_train(const TrainOptions& options);
int run_inference(const InferenceOptions& options);
int run_eval(const EvalOptions& options);
int run_play(const PlayOptions& options);
int run_bench(const BenchOptions& options);

}  // namespace troupe
