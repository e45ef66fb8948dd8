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

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

// The folder of the built-in run files: the one installed with the program, or the source's for a program in its build folder.
fs::path config_folder() {
  std::error_code failed;
  const fs::path program = program_folder(), build = fs::canonical(TROUPE_BUILD_DIR, failed);
  const fs::path installed = program.parent_path() / "share" / "troupe" / "configs";
  const bool built_here = !build.empty() && is_within(program, build);
  return built_here && !fs::is_directory(installed, failed) ? fs::path(TROUPE_SOURCE_DIR) / "configs" : installed;
}

// Names of the built-in run files, sorted.
std::vector<std::string> config_names() {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(config_folder(), missing))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
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

// Every start leaves run.lock; checkpoints/ tells a run whose lock somebody removed from a folder with a run file named config.json.
bool is_run_folder(const fs::path& path) {
  return is_file(path / "config.json") && (is_file(path / "run.lock") || posix_disk().exists(path / "checkpoints"));
}

// The folder of a file, so that a path can be put behind it.
fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// Why `path`, which is inside the folder of a run, is not what was asked for; empty when it is not inside one.
std::string inside_a_run(const fs::path& path) {
  constexpr int kLevels = 4;  // checkpoints/NUMBER/FILE, and a slash at the end
  fs::path folder = path;
  for (int i = 0; i < kLevels && folder.has_parent_path() && folder != folder.parent_path(); ++i) {
    folder = folder.parent_path();
    if (!is_run_folder(folder)) continue;
    const std::string run = printable(folder.string(), 200);
    const bool checkpoint = is_file(path / "state.json");
    return checkpoint ? "is a checkpoint of the run " + run + "; give " + run + ", whose newest checkpoint is used"
                      : "is part of the run " + run + "; give " + run;
  }
  return "";
}

[[noreturn]] void refuse_folder(const std::string& name) {
  std::string why = inside_a_run(name);
  if (why.empty())
    why = "is a folder without a run, expected a run file, the name of a built-in one, or the folder of a run";
  throw ConfigError(printable(name, 200) + ": " + why);
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
  if (name.empty())
    throw ConfigError("the name of the run file is empty, expected a path or the name of a built-in one");
  const bool path = name.find('/') != std::string::npos || name.ends_with(".json");
  if (path && is_file(name)) return name;
  const bool relative = !name.starts_with('/') && !name.starts_with('.');
  if (relative && !name.ends_with(".json")) {
    const fs::path built_in = config_folder() / (name + ".json");
    if (is_file(built_in)) return built_in.string();
  }
  if (is_file(name)) return name;
  std::error_code failed;
  if (is_run_folder(name)) return fs::path(name) / "config.json";
  if (fs::is_directory(name, failed)) refuse_folder(name);
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

std::string run_folder_of(const TrainOptions& options, const RunConfig& config) {
  if (!options.run_dir.empty()) return options.run_dir;
  const fs::path file = find_config(options.config), folder = folder_of(file);
  const bool of_a_run = file.filename() == "config.json" && is_run_folder(folder);
  return of_a_run ? folder.string() : "runs/" + config.name;
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
  if (posix_disk().exists(path + "/config.json")) return;
  const std::string inside = inside_a_run(path);
  if (!inside.empty()) throw ConfigError(printable(path, 200) + ": " + inside);
  if (!fs::is_directory(path, failed))
    throw ConfigError(printable(path, 200) + ": is not a folder, expected the folder of a run");
  throw ConfigError(printable(path, 200) + ": is not the folder of a run, it has no config.json");
}

}  // namespace troupe
