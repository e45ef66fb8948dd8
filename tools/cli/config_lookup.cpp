#include "tools/cli/config_lookup.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "actors/experience/answers/reward_model_check.h"
#include "actors/experience/answers/shared_token_run.h"
#include "algorithms/choice/algorithm_choice.h"
#include "envs/bridge/make_python_env.h"
#include "envs/c_abi/library_env.h"
#include "envs/make/make_env.h"
#include "models/decoder/lora.h"
#include "models/learning/environment_rules.h"
#include "models/lm/lm_config.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "tools/cli/base_config.h"
#include "tools/cli/built_in_configs.h"
#include "tools/cli/moved_files.h"
#include "tools/cli/pretrained.h"
#include "tools/cli/python_functions.h"
#include "tools/cli/waiting_line.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed) && !fs::is_directory(path, failed);
}

// Tells a user who waits for an environment in a process of its own.
std::unique_ptr<WaitingLine> waiting_line(const EnvConfig& env) {
  if (!is_python_id(env.id) && !is_library_id(env.id)) return nullptr;
  return std::make_unique<WaitingLine>("waiting for the environment " + printable(env.id, 200) +
                                       ", for at most env.start_timeout_ms (" +
                                       std::to_string(env.start_timeout.count()) + " ms)");
}

// Throws ConfigError if the environment cannot save its state. A deterministic run needs that, because it resumes in
// the middle of its episodes.
void require_saveable(Env& env) {
  if (is_python_id(env.spec().id))
    throw ConfigError("deterministic: true needs an environment that can save its state, and " + env.spec().id +
                      " cannot, because it runs in a Python process; use false");
  EnvStep step = EnvStep::allocate(env.spec(), env.rows());
  env.reset(0, 0, step);
  const std::string needed =
      "deterministic: true needs an environment that can save its state, and " + env.spec().id + " cannot";
  std::string bytes;
  bool saved = false;
  try {
    saved = env.save(bytes);
  } catch (const std::runtime_error& failure) {  // a function of a library
    throw ConfigError(needed + ": " + printable(failure.what(), 300) + "; use false");
  }
  if (!saved) throw ConfigError(needed + "; give its row a plain `state` (docs/environments.md), or use false");
}

// The environment with one row. Refuses an unknown id, wrong parameters, and settings that do not fit the environment.
std::unique_ptr<Env> usable_environment(const RunConfig& config) {
  const auto line = waiting_line(config.env);
  EnvConfig one_row = config.env;
  one_row.rows = 1;
  std::unique_ptr<Env> env = make_env(one_row);
  require_whole_worlds(config.env);
  make_evaluation_env(config.env, config.evaluation.env_params, 1);
  check_fit(config, env->spec());
  return env;
}

// Sets a setting to a text that the user has not given as a setting. The error about it begins with `source`.
void set_text(RunConfig& config, const std::string& path, const std::string& text, const std::string& source) {
  try {
    // A value that begins with a quote is read as JSON.
    apply_override(config, path + '=' + (text.starts_with('"') ? nlohmann::json(text).dump() : text));
  } catch (const nlohmann::json::exception&) {
    throw ConfigError(source + '"' + printable(text) + "\" has " + strange_character(text));
  } catch (const ConfigError& refused) {
    const std::string begin = "--set: " + path + ": ";
    const std::string_view what = refused.what();
    throw ConfigError(source + std::string(what.starts_with(begin) ? what.substr(begin.size()) : what));
  }
}

// Names the run after its config file.
void name_after(RunConfig& config, const fs::path& file) {
  try {
    set_text(config, "name", file.stem().string(), printable(file.string(), 200) + ": name: ");
  } catch (const ConfigError& refused) {
    throw ConfigError(std::string(refused.what()) + "; rename the file, or set name");
  }
}

// The name of a run without a config file: of gym:ALE/Pong-v5 it is ALE_Pong-v5, of lib:build/hill.so hill, of
// py:my_envs.py:Maze Maze. As name_of() in python/troupe/_callable_id.py.
std::string name_of_environment(const std::string& id) {
  const size_t colon = id.rfind(':');
  std::string name = colon == std::string::npos ? id : id.substr(colon + 1);
  if (is_library_id(id)) name = fs::path(name).stem().string();
  std::ranges::replace(name, '/', '_');
  return name;
}

// Refuses a task, a tokenizer and a model that do not fit each other.
void check_tokens(const RunConfig& config) {
  const LoraConfig lora = lora_from_config(config.model.lora, "model.lora");
  if (lora.used() && config.model.path.empty())
    throw ConfigError("model.lora: " + printable(config.model.lora) +
                      " needs pre-trained weights, and model.path is empty; set model.path");
  const auto line = line_for_task(config.task);
  const std::shared_ptr<const TokenRun> run = shared_token_run(config);
  check_answers(config, *run);
  const int64_t vocabulary = run->tokenizer->vocabulary_size();
  if (!config.model.path.empty() && config.tokenizer.kind == "char") {
    const int64_t of_model = lm_shape_from_config(config.model.decoder, "model.decoder").vocabulary;
    if (of_model != vocabulary)
      throw ConfigError("tokenizer.kind: \"char\" has " + std::to_string(vocabulary) +
                        " tokens, the model in model.path " + std::to_string(of_model) + "; use \"bpe\"");
  }
  lm_shape_of(config.model, vocabulary, run->prompt_tokens + run->conversation_tokens());
}

// Checks all that training requires of the environment.
void check_environment(const RunConfig& config) {
  if (is_token_run(config)) {
    check_function_files(config.task);
    check_tokens(config);
    check_first_weights(config, *shared_token_run(config));
    if (missing_reward_model(config).empty()) check_reward_model(config, *shared_token_run(config));
    return;
  }
  const std::unique_ptr<Env> env = usable_environment(config);
  check_unused_settings(config.model, config.algorithm, env->spec());
  check_draw(config.replay.draw, config.algorithm, recurrence_of(config, env->spec()));
  if (!config.deterministic) return;
  const auto line = waiting_line(config.env);
  require_saveable(*env);
}

// The first mistake in a config, beginning with the field; empty if there is none.
std::string mistake_in(RunConfig& config) {
  try {
    use_pretrained(config);
    check_names(config.algorithm);
    validate(config);
    check_algorithm(config.algorithm, config.trainer.micro_batch, config.trainer.micro_batch_tokens);
    check_environment(config);
    return "";
  } catch (const ConfigError& mistake) {
    return mistake.what();
  }
}

// Whether `inner` is the field `outer` or part of it, as env.params.size is of env.params.
bool is_inside(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '.');
}

// Whether the field that the mistake begins with was given by one of the overrides.
bool is_about(std::string_view mistake, const std::vector<std::string>& overrides) {
  const std::string_view field = mistake.substr(0, mistake.find(": "));
  return std::ranges::any_of(overrides, [&](std::string_view assignment) {
    const std::string_view given = assignment.substr(0, assignment.find('='));
    return is_inside(field, given) || is_inside(given, field);
  });
}

// The folder of a file; "." if its path names none.
fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

// The names of the run folders in `folder`, sorted.
std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (is_run_folder(entry.path())) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// The last part of a path, whether or not a slash ends it.
fs::path last_part(const fs::path& path) {
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

// runs/NAME, the default run folder of `troupe train NAME`, if it is the folder of a run; else empty.
std::string run_named(const fs::path& path) {
  const fs::path run = fs::path("runs") / last_part(path);
  return run.has_filename() && is_run_folder(run) ? run.string() : "";
}

// The folder of a run whose name is nearly that of `path`, beside it or in runs/; empty when there is none.
std::string run_near(const fs::path& path) {
  const fs::path name = last_part(path), at = path.has_filename() ? path : path.parent_path();
  for (const fs::path& folder : {folder_of(at), fs::path("runs")})
    if (const std::string near = closest(name.string(), runs_in(folder)); !near.empty())
      return folder == "." ? near : (folder / near).string();
  return "";
}

// Why `path`, which is inside the folder of a run, is not what was asked for; empty when it is not inside one.
std::string inside_a_run(const fs::path& path) {
  constexpr int kLevels = 4;  // checkpoints/NUMBER/FILE, and a slash at the end
  fs::path folder = path;
  for (int i = 0; i < kLevels && folder.has_parent_path() && folder != folder.parent_path(); ++i) {
    folder = folder.parent_path();
    if (!is_run_folder(folder)) continue;
    const std::string run = printable(folder.string(), 200);
    return "is part of the run " + run + "; give " + run;
  }
  return "";
}

// The error for a checkpoint that is given in place of a config file.
[[noreturn]] void refuse_checkpoint(const std::string& name, const CheckpointPath& checkpoint) {
  const std::string run = printable(checkpoint.run, 200), shown = printable(name, 200);
  throw ConfigError(shown + ": is a checkpoint of the run " + run + "; give " + run +
                    " to resume that run, or a config file and --init-from " + shown +
                    " to begin a new run with these weights");
}

[[noreturn]] void refuse_folder(const std::string& name) {
  std::string why = inside_a_run(name);
  if (why.empty())
    why = "is a folder without a run, expected a config file, the name of a built-in one, or the folder of a run";
  throw ConfigError(printable(name, 200) + ": " + why);
}

// What `name`, which is no config file, may mean: the name of a run or of a built-in config; empty if it is like none.
std::string name_near(const std::string& name) {
  const bool like_a_folder = name.find('/') != std::string::npos && !is_config_file_name(name);
  if (const std::string run = run_named(name); !run.empty()) return run;
  std::string file = nearest_config_file(name);
  if (!file.empty() && (like_a_folder || is_config_file_name(name))) return file;
  if (const std::string run = like_a_folder ? run_near(name) : ""; !run.empty()) return run;
  const fs::path path(name);
  const std::string without_ending = is_config_file_name(name) ? (path.parent_path() / path.stem()).string() : name;
  if (const std::string config = nearest_built_in_config(without_ending); !config.empty()) return config;
  return file.empty() ? run_near(name) : file;
}

[[noreturn]] void refuse_name(const std::string& name) {
  const std::string begin = printable(name, 200) + ": no such config file, ";
  if (built_in_configs().empty())
    throw ConfigError(begin + "and " + config_folder().string() +
                      " holds no built-in ones; install troupe again, or give the path of a config file");
  if (const std::string advice = advice_for_environment(name); !advice.empty() && run_named(name).empty())
    throw ConfigError(begin + "but " + advice);
  const std::string near = name_near(name);
  throw ConfigError(begin + (near.empty() ? "the built-in ones are: " + built_in_configs_text()
                                          : "did you mean " + printable(near, 200) + '?'));
}

}  // namespace

bool is_run_folder(const std::string& path) {
  return is_file(path + "/config.json") && (is_file(path + "/run.lock") || posix_disk().exists(path + "/checkpoints"));
}

std::optional<CheckpointPath> checkpoint_path(const std::string& path) {
  constexpr size_t kMostDigits = 15;
  const fs::path at = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  const std::string name = at.filename().string();
  const bool number = !name.empty() && name.size() <= kMostDigits && name.find_first_not_of("0123456789") == name.npos;
  const fs::path run = folder_of(folder_of(at));
  if ((!number && name != "best") || folder_of(at).filename() != "checkpoints" || !is_run_folder(run)) return {};
  return CheckpointPath{run.string(), number ? std::to_string(std::stoull(name)) : name};
}

std::string find_config(const std::string& name) {
  if (name.empty())
    throw ConfigError("the name of the config file is empty, expected a path or the name of a built-in one");
  const bool path = name.find('/') != std::string::npos || is_config_file_name(name);
  if (path && is_file(name)) return name;
  const bool relative = !name.starts_with('/') && !name.starts_with('.');
  if (relative && !is_config_file_name(name)) {
    const fs::path built_in = config_folder() / (name + ".json");
    if (is_file(built_in)) return built_in.string();
  }
  if (is_file(name)) return name;
  std::error_code failed;
  // A link that leads nowhere is returned too: opening it gives the reason.
  if (const fs::path file = fs::path(name) / "config.json"; is_run_folder(name) || fs::is_symlink(file, failed))
    return file;
  if (const auto checkpoint = checkpoint_path(name)) refuse_checkpoint(name, *checkpoint);
  if (fs::is_directory(name, failed)) refuse_folder(name);
  refuse_name(name);
}

EnvSpec environment_of(const RunConfig& config) {
  if (is_token_run(config)) return {};
  EnvConfig one_row = config.env;
  one_row.rows = 1;
  return make_env(one_row)->spec();
}

RunConfig load_run_config(const std::string& name, const std::vector<std::string>& overrides,
                          std::optional<uint64_t> seed, const std::string& env) {
  const bool has_file = env.empty() || !name.empty();
  const std::string path = has_file ? find_config(name) : "";
  RunConfig of_file = base_config();
  if (has_file) of_file = load_config(path, ConfigSource::user, of_file);
  RunConfig config = of_file;
  if (!env.empty()) set_text(config, "env.id", env, "--env: ");
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  if (seed) config.seed = *seed;
  for (RunConfig* read : {&config, &of_file}) {
    use_python_task(*read);
    forget_unused_python(*read);
  }
  if (config.name.empty() && has_file) name_after(config, path);
  if (config.name.empty()) set_text(config, "name", name_of_environment(env), "--env: name: ");
  const std::string mistake = mistake_in(config);
  if (mistake.empty()) {
    use_canonical_spelling(config.algorithm);
    return config;
  }
  const std::string flag = env.empty() ? "" : "--env " + printable(env, 200);
  const bool unchanged = overrides.empty() && env.empty();
  std::string source;
  if (has_file && (unchanged || mistake_in(of_file) == mistake))
    source = path;
  else if (is_about(mistake, overrides))
    source = "--set";
  else if (!has_file || (!env.empty() && mistake.starts_with("env.id: ")))
    source = flag;
  else
    source = path + " with " + (env.empty() ? "--set" : overrides.empty() ? flag : flag + " and --set");
  throw ConfigError(source + ": " + mistake);
}

RunConfig load_stored_config(const std::string& path, const std::vector<std::string>& moved) {
  RunConfig config = load_config(path, ConfigSource::run);
  set_moved_files(config, moved);
  try {
    if (is_token_run(config))
      check_tokens(config);
    else
      usable_environment(config);
  } catch (const ConfigError& mistake) {
    throw ConfigError(path + ": " + mistake.what());
  }
  return config;
}

void require_run_folder(const std::string& path) {
  if (posix_disk().exists(path + "/config.json")) return;
  if (const auto checkpoint = checkpoint_path(path)) {
    const std::string run = printable(checkpoint->run, 200);
    throw ConfigError(printable(path, 200) + ": is a checkpoint of the run " + run + "; give " + run +
                      " --checkpoint " + checkpoint->which);
  }
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    const std::string named = run_named(path), near = named.empty() ? run_near(path) : named;
    throw ConfigError(printable(path, 200) + ": no such run folder" +
                      (near.empty() ? "" : ", did you mean " + printable(near, 200) + '?'));
  }
  const std::string inside = inside_a_run(path);
  if (!inside.empty()) throw ConfigError(printable(path, 200) + ": " + inside);
  if (!fs::is_directory(path, failed))
    throw ConfigError(printable(path, 200) + ": is not a folder, expected the folder of a run");
  throw ConfigError(printable(path, 200) + ": is not the folder of a run, it has no config.json");
}

}  // namespace troupe
