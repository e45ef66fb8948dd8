#include "tools/config_lookup.h"

#include <algorithm>
#include <filesystem>

#include "algorithms/algorithm_choice.h"
#include "envs/make_env.h"
#include "models/environment_rules.h"
#include "runtime/config.h"
#include "runtime/errors.h"
#include "runtime/file.h"
#include "runtime/suggest.h"
#include "tools/launch.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> config_folders() {
  return {"configs", fs::path(TROUPE_SOURCE_DIR) / "configs",
          fs::path(program_folder()) / ".." / "share" / "troupe" / "configs"};
}

// Names of the run files in configs/, sorted, each once.
std::vector<std::string> config_names() {
  std::vector<std::string> names;
  for (const fs::path& folder : config_folders()) {
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing))
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool is_file(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed) && !fs::is_directory(path, failed);
}

// A deterministic run that is resumed goes on in the middle of its episodes.
void require_saveable(Env& env) {
  EnvStep step = EnvStep::allocate(env.spec(), env.rows());
  env.reset(0, 0, step);
  std::string bytes;
  if (!env.save(bytes))
    throw ConfigError("deterministic: true needs an environment that can save its state, and " + env.spec().id +
                      " cannot; give its row a plain `state` (docs/environments.md), or use false");
}

// The environment with one row. Refuses an unknown id, wrong parameters, and settings that do not fit the environment.
std::unique_ptr<Env> usable_environment(const RunConfig& config) {
  EnvConfig one_row = config.env;
  one_row.rows = 1;
  std::unique_ptr<Env> env = make_env(one_row);
  make_evaluation_env(config, 1);
  check_fit(config, env->spec());
  return env;
}

// Whether there is such a device on this machine is for LibTorch to say, when it is loaded.
void check_device(const TrainerConfig& trainer) {
  if (trainer.device != "cpu" && TROUPE_USES_CUDA == 0)
    throw ConfigError("trainer.device: \"" + trainer.device +
                      "\", but this build has no CUDA; use \"cpu\", or build with the preset gpu");
}

// All that training asks of the environment.
void check_environment(const RunConfig& config) {
  const std::unique_ptr<Env> env = usable_environment(config);
  check_unused_settings(config, env->spec());
  if (config.deterministic) require_saveable(*env);
}

[[noreturn]] void refuse_name(const std::string& name) {
  const std::vector<std::string> names = config_names();
  const std::string near = closest(fs::path(name).stem().string(), names);
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  throw ConfigError(printable(name, 200) + ": no such run file, " +
                    (near.empty() ? "the built-in ones are: " + all : "did you mean " + near + '?'));
}

}  // namespace

std::string find_config(const std::string& name) {
  if (is_file(name)) return name;
  const bool relative = !name.empty() && !name.starts_with('/') && !name.starts_with('.');
  if (relative) {
    for (const fs::path& folder : config_folders())
      for (const std::string& file : {name, name + ".json"})
        if (is_file(folder / file)) return (folder / file).string();
  }
  std::error_code failed;
  if (fs::is_directory(name, failed)) throw ConfigError(printable(name, 200) + ": is a directory, expected a run file");
  refuse_name(name);
}

EnvSpec environment_of(const RunConfig& config) {
  EnvConfig one_row = config.env;
  one_row.rows = 1;
  return make_env(one_row)->spec();
}

RunConfig load_run_config(const std::string& name, const std::vector<std::string>& overrides,
                          std::optional<uint64_t> seed) {
  const std::string path = find_config(name);
  RunConfig config = load_config(path);
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  if (seed) config.seed = *seed;
  if (config.name.empty()) config.name = fs::path(path).stem().string();
  try {
    check_names(config.algorithm);
    validate(config);
    check_algorithm(config);
    check_device(config.trainer);
    check_environment(config);
  } catch (const ConfigError& mistake) {
    throw ConfigError(path + ": " + mistake.what());
  }
  return config;
}

RunConfig load_stored_config(const std::string& path) {
  const RunConfig config = load_config(path);
  try {
    usable_environment(config);
  } catch (const ConfigError& mistake) {
    throw ConfigError(path + ": " + mistake.what());
  }
  return config;
}

void require_run_folder(const std::string& path) {
  std::error_code failed;
  if (!fs::exists(path, failed)) throw ConfigError(printable(path, 200) + ": no such run folder");
  if (!fs::is_directory(path, failed))
    throw ConfigError(printable(path, 200) + ": is not a folder, expected the folder of a run");
  if (!posix_disk().exists(path + "/config.json"))
    throw ConfigError(printable(path, 200) + ": is not the folder of a run, it has no config.json");
}

}  // namespace troupe
