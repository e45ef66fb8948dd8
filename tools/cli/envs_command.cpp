// `troupe envs`: the environments and their parameters.

#include <algorithm>
#include <charconv>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "envs/bridge/make_python_env.h"
#include "envs/c_abi/library_env.h"
#include "envs/make/make_env.h"
#include "envs/mujoco/make_mujoco_env.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/command_help.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

struct EnvsOptions {
  std::string id;  // only this one, with its parameters; empty: all
  std::vector<std::string> overrides;
  bool json = false;
};

EnvsOptions read_envs(Flags& flags) {
  EnvsOptions options;
  flags.optional_argument("ENVIRONMENT", options.id, any_text,
                          "print only this one, with the meaning of each parameter");
  flags.repeatable(
      "--set", "PATH=VALUE", options.overrides,
      "print the observations and actions of ENVIRONMENT with this value of env.params.KEY, env.chunk, env.python or "
      "env.normalize_actions; repeatable");
  flags.toggle("--json", options.json, "print one JSON array");
  flags.read();
  if (flags.given("--set") && options.id.empty()) refuse_flag("--set", "needs an ENVIRONMENT");
  return options;
}

const char* name_of_kind(ActionKind kind) {
  switch (kind) {
    case ActionKind::discrete: return "discrete";
    case ActionKind::multi_discrete: return "multi_discrete";
    case ActionKind::continuous: return "continuous";
  }
  return "unknown";
}

// "-2", or "[-0.5, 0, 1]" if they differ. The shortest texts that read back as the same number.
template <class Number>
std::string numbers_text(const std::vector<Number>& numbers) {
  constexpr size_t kShown = 8;
  const auto text_of = [](Number number) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
  };
  if (std::ranges::adjacent_find(numbers, std::ranges::not_equal_to()) == numbers.end())
    return text_of(numbers.front());
  std::string list;
  for (size_t i = 0; i < std::min(numbers.size(), kShown); ++i) list += (i > 0 ? ", " : "[") + text_of(numbers[i]);
  return list + (numbers.size() > kShown ? ", ...]" : "]");
}

// "discrete 2", "continuous [1], from -2 to 2", "multi_discrete [2] of [3, 2]", ", chunks of 8 steps", ", masked".
std::string action_text(const ActionSpec& action) {
  std::string text = name_of_kind(action.kind);
  if (action.kind == ActionKind::continuous)
    text += " [" + std::to_string(action.dims()) + "], from " + numbers_text(action.low) + " to " +
            numbers_text(action.high);
  if (action.kind == ActionKind::discrete) text += ' ' + std::to_string(action.bins.at(0));
  if (action.kind == ActionKind::multi_discrete)
    text += " [" + std::to_string(action.dims()) + "] of " + numbers_text(action.bins);
  if (action.chunk > 1) text += ", chunks of " + std::to_string(action.chunk) + " steps";
  return text + (action.masked ? ", masked" : "");
}

void print_parameters(const EnvInfo& info) {
  for (const SettingInfo& each : info.parameters)
    std::cout << wrapped(
        "    " + each.path + " = " + each.fallback + "  " + each.type + (each.range.empty() ? "" : ' ' + each.range),
        each.help, 8, kListColumns);
}

void print_text(const EnvInfo& info, bool short_form) {
  std::cout << info.id << "\n    " << info.description << "\n    observations:";
  for (const char* before = " "; const ArraySpec& array : info.spec.observations)
    std::cout << std::exchange(before, ", ") << array.name << ' ' << name_of(array.dtype) << ' ' << array.shape.text();
  std::cout << "\n    actions: " << action_text(info.spec.action) << '\n';
  if (info.spec.max_episode_steps > 0)
    std::cout << "    episodes: at most " << info.spec.max_episode_steps << " steps\n";
  if (info.params.empty()) return;
  if (short_form)
    std::cout << wrapped("    parameters:", info.params, 17, kListColumns);
  else
    print_parameters(info);
}

Json as_json(const EnvInfo& info) {
  const EnvSpec& spec = info.spec;
  Json observations = Json::array();
  for (const ArraySpec& array : spec.observations) {
    const auto extents = [](const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); };
    Json observation = {{"name", array.name}, {"dtype", name_of(array.dtype)}, {"shape", extents(array.shape)}};
    if (!array.categories.empty()) {
      observation["categories"] = array.categories;
      observation["number_shape"] = extents(array.number_shape);
    }
    observations.push_back(std::move(observation));
  }
  Json action = {{"kind", name_of_kind(spec.action.kind)},
                 {"bins", spec.action.bins},
                 {"low", spec.action.low},
                 {"high", spec.action.high},
                 {"chunk", spec.action.chunk},
                 {"masked", spec.action.masked}};
  if (spec.action_form) {
    action["number_shape"] = spec.action_form->shape;
    action["number_dtype"] = spec.action_form->dtype;
    action["starts"] = spec.action_form->starts;
  }
  return {{"id", info.id},
          {"description", info.description},
          {"parameters", info.params},
          {"observations", observations},
          {"action", action},
          {"max_episode_steps", spec.max_episode_steps},
          {"tasks", spec.tasks},
          {"reports_success", spec.reports_success}};
}

// The observations and actions of the environment with these settings of the section env.
EnvSpec spec_with(const std::string& id, const std::vector<std::string>& overrides) {
  RunConfig config;
  config.env.id = id;
  for (const std::string& assignment : overrides) {
    const auto sets = [&](std::string_view path) { return assignment.starts_with(path); };
    if (!sets("env.params.") && !sets("env.chunk=") && !sets("env.python=") && !sets("env.normalize_actions="))
      refuse_flag("--set", printable(assignment) +
                               ": expected env.params.KEY=VALUE, env.chunk=VALUE, env.python=VALUE or "
                               "env.normalize_actions=VALUE");
    apply_override(config, assignment);
  }
  config.env.rows = 1;
  try {
    return make_env(config.env)->spec();
  } catch (const ConfigError& error) {
    refuse_flag("--set", error.what());
  }
}

std::string unknown_environment(const std::string& id) {
  const std::string near = nearest_environment(id);
  return printable(id) + ": unknown environment, " +
         (near.empty() ? "`troupe envs` lists them" : "did you mean " + near + '?');
}

int print_one(const EnvInfo& info, bool json) {
  if (json)
    std::cout << Json::array({as_json(info)}).dump(2) << '\n';
  else
    print_text(info, false);
  return 0;
}

// An environment in Python or C, which is asked for what it observes and does.
int show_foreign_env(const EnvsOptions& options) {
  EnvConfig config;
  config.id = options.id;
  config.rows = 1;
  const char* in_python = "written in Python; env.params are its keyword arguments";
  const char* in_c = "of a library in C; env.params is the JSON object that it gets";
  EnvInfo info{.id = options.id, .description = is_library_id(options.id) ? in_c : in_python};
  info.spec = options.overrides.empty() ? make_env(config)->spec() : spec_with(options.id, options.overrides);
  return print_one(info, options.json);
}

// An environment of MuJoCo, with its parameters.
int show_mujoco_env(const EnvsOptions& options) {
  EnvConfig config;
  config.id = options.id;
  config.rows = 1;
  const MadeEnv made = make_mujoco_env(config, "{}");
  EnvInfo info{.id = options.id,
               .description = mujoco_description(options.id),
               .params = made.params,
               .parameters = made.parameters};
  info.spec = options.overrides.empty() ? made.env->spec() : spec_with(options.id, options.overrides);
  return print_one(info, options.json);
}

int list_envs(const EnvsOptions& options) {
  if (const std::string strange = strange_character(options.id); !strange.empty())
    throw ConfigError('"' + printable(options.id, 200) + "\" has " + strange + ", expected an environment id");
  if (is_mujoco_id(options.id)) return show_mujoco_env(options);
  if (options.id.find(':') != std::string::npos) return show_foreign_env(options);
  Json all = Json::array();
  std::vector<std::string> errors;
  bool found = false;
  for (EnvInfo& info : list_environments()) {
    if (!options.id.empty() && options.id != info.id) continue;
    found = true;
    if (!options.overrides.empty() && info.error.empty()) info.spec = spec_with(info.id, options.overrides);
    if (!info.error.empty())
      errors.push_back(info.error);
    else if (options.json)
      all.push_back(as_json(info));
    else
      print_text(info, options.id.empty());
  }
  if (!found) throw ConfigError(unknown_environment(options.id));
  if (options.json) std::cout << all.dump(2) << '\n';
  if (!options.json && options.id.empty()) {
    std::cout << "Also environments in Python: " << python_schemes() << " (docs/python_environments.md)\n"
              << "and in C: lib:FILE.so (docs/environments.md)\n";
    std::string ids;
    for (const std::string& id : mujoco_ids()) ids += (ids.empty() ? "" : " ") + id;
    std::cout << wrapped("Also of MuJoCo (docs/mujoco.md):", ids, 4, kListColumns);
  }
  std::cout.flush();
  for (const std::string& error : errors) print_error("troupe: " + error);
  return errors.empty() ? 0 : kExitUserMistake;
}

}  // namespace

Command envs_command() {
  return {.name = "envs",
          .summary = "list the environments and their parameters",
          .examples =
              "  troupe envs\n"
              "  troupe envs GridWorld\n"
              "  troupe envs GridWorld --set env.params.observation=image\n"
              "  troupe envs gym:CartPole-v1\n"
              "  troupe envs mujoco:Hopper-v5\n"
              "  troupe envs --json\n",
          .exit_codes = {{0, "the environments were listed"},
                         {1, "the list could not be written"},
                         {2, "a mistake in the command, such as an unknown environment"}},
          .parse = read_then_run<read_envs, list_envs>};
}

}  // namespace troupe
