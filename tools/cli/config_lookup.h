#pragma once
// Finding a run file by path or by name, the run folder, and the config a command line asks for. Any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

struct TrainOptions;  // tools/cli/train_command.h

// The path of a run file given by path, or by the name of a built-in one, like cartpole or algorithms/surrogate_sapo.
// The built-in ones are those installed with the program, or those of the source tree for a program in its build
// folder; no file of the current folder takes the place of one, except at a path: a name with a slash or that ends in
// .json, .yaml or .yml. The folder of a run stands for the config.json in it. Throws ConfigError with the nearest name.
std::string find_config(const std::string& name);

// The run file with overrides and seed applied, named after its file when it has no name. All that can be checked
// without a model and without looking at this machine is checked. Throws ConfigError, which blames the file for what it
// has wrong, --set for a field that was given there, and both where they do not go together.
RunConfig load_run_config(const std::string& config, const std::vector<std::string>& overrides = {},
                          std::optional<uint64_t> seed = {});

// The folder that `troupe train` works in: --run if it is given, else the run's own folder where CONFIG is that folder
// or the config.json in it, else runs/NAME. `config` is what load_run_config() made of the options.
std::string run_folder_of(const TrainOptions& options, const RunConfig& config);

// Throws ConfigError when the folder that `troupe train` works in cannot be one, because a file is in the place of it
// or of a folder above.
void require_room_for_folder(const TrainOptions& options, const RunConfig& config);

// The config that a run has stored in its folder. Rules that only matter to training are not applied: an older program
// may have had others. Throws ConfigError when the file or its environment is not usable.
RunConfig load_stored_config(const std::string& path);

// The environment that the config names. Throws ConfigError.
EnvSpec environment_of(const RunConfig& config);

// A checkpoint of a run, named by a path: RUN/checkpoints/150, RUN/checkpoints/000000000150 or RUN/checkpoints/best.
struct CheckpointPath {
  std::string run;    // the folder of the run, which is there; the checkpoint may not be
  std::string which;  // "150" or "best", as --checkpoint takes it
};
std::optional<CheckpointPath> checkpoint_path(const std::string& path);

// Throws ConfigError, with the nearest name, unless `path` is the folder of a run.
void require_run_folder(const std::string& path);

}  // namespace troupe
