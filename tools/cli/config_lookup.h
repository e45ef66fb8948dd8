#pragma once
// Finding a config file by path or by name, and the config a command line asks for. Any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"

namespace troupe {

// The path of a config file given by path, or by the name of a built-in one, like cartpole or
// algorithms/surrogate_sapo. The built-in ones are those installed with the program, or those of the source tree for a
// program in its build folder; a file of the current folder is used only if it is given as a path: a name that has a
// slash or ends in .json, .yaml or .yml. The folder of a run means the config.json in it. Throws ConfigError with the
// nearest name.
std::string find_config(const std::string& name);

// The config file with overrides and seed applied, named after its file if it has no name. Everything is checked that
// depends neither on a model nor on this machine; a reward model, if its folder is there. Throws ConfigError, which
// names the file, --set if the field was given there, or both if they contradict each other. `env` is the value of
// --env: if it is not empty, it is the environment, and with it `config` may be empty: then all settings have their
// defaults, and the run is named after the environment.
RunConfig load_run_config(const std::string& config, const std::vector<std::string>& overrides = {},
                          std::optional<uint64_t> seed = {}, const std::string& env = {});

// The config that a run has stored in its folder. Rules that matter only to training are not applied, because an older
// program may have had others. `moved` are values of --set that say where its files are now (actors/config/config.h,
// file_settings()). Throws ConfigError when the file or its environment cannot be used, and for another setting.
RunConfig load_stored_config(const std::string& path, const std::vector<std::string>& moved = {});

// The environment that the config names. Throws ConfigError.
EnvSpec environment_of(const RunConfig& config);

// A checkpoint of a run, named by a path: RUN/checkpoints/150, RUN/checkpoints/000000000150 or RUN/checkpoints/best.
struct CheckpointPath {
  std::string run;    // the folder of the run, which exists; the checkpoint may be missing
  std::string which;  // "150" or "best", as --checkpoint takes it
};
std::optional<CheckpointPath> checkpoint_path(const std::string& path);

// Every start creates run.lock. If somebody has removed it, checkpoints/ distinguishes a run from another folder that
// has a config.json.
bool is_run_folder(const std::string& path);

// Throws ConfigError, with the nearest name, unless `path` is the folder of a run.
void require_run_folder(const std::string& path);

}  // namespace troupe
