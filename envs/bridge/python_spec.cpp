#include "envs/bridge/python_spec.h"

#include <map>

#include <nlohmann/json.hpp>

#include "envs/observation_called.h"
#include "envs/row.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestError = 400;

std::string quoted(const std::string& text) { return '"' + printable(text, 200) + '"'; }

// The package that ids of a scheme need, after a blank.
std::string library_of(const std::string& scheme) {
  if (scheme == "gym") return " gymnasium";
  if (scheme == "zoo") return " pettingzoo";
  return scheme == "envpool" ? " envpool" : "";
}

[[noreturn]] void refuse(const PythonTarget& target, const Json& error) {
  const auto kind = error.at("kind").get<std::string>();
  const std::string text = printable(error.at("text").get<std::string>(), kLongestError);
  log_block(LogLevel::info, target.id, error.at("traceback").get<std::vector<std::string>>());
  const auto missing = [&](const std::string& packages) {
    return ConfigError("env.python: " + text + " for " + quoted(target.python) + ", and env.id " + quoted(target.id) +
                       " needs it; install it with `" + printable(target.python, 200) + " -m pip install " + packages +
                       "`, or set env.python to an interpreter that has it");
  };
  const std::string scheme = target.id.substr(0, target.id.find(':'));
  if (kind == "no_numpy") throw missing("numpy" + library_of(scheme));
  if (kind.starts_with("no_")) throw missing(kind.substr(3));
  if (kind == "params") throw ConfigError("env.params: " + text);
  throw ConfigError("env.id: " + quoted(target.id) + (kind == "make" ? " cannot be made: " : ": ") + text);
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : kDTypes)
    if (name_of(dtype) == name) return dtype;
  throw ConfigError("the dtype " + printable(name) + " is unknown");
}

ActionKind kind_named(const std::string& name) {
  if (name == "continuous") return ActionKind::continuous;
  return name == "multi_discrete" ? ActionKind::multi_discrete : ActionKind::discrete;
}

EnvSpec read_spec(const std::string& id, const Json& spaces) {
  EnvSpec spec;
  spec.id = id;
  spec.blocks = true;
  for (const Json& array : spaces.at("observations")) {
    const auto extents = array.at("shape").get<std::vector<int64_t>>();
    const auto name = array.at("name").get<std::string>();
    if (extents.size() >= Shape::kMaxRank)
      throw ConfigError("env.id: " + quoted(id) + ": " + observation_called(printable(name)) + " has " +
                        std::to_string(extents.size()) + " dimensions, expected at most " +
                        std::to_string(Shape::kMaxRank - 1));
    ArraySpec observation{name, dtype_named(array.at("dtype").get<std::string>()), Shape(extents)};
    if (array.contains("categories")) {
      observation.categories = array.at("categories").get<std::vector<std::pair<int64_t, int64_t>>>();
      observation.number_shape = Shape(array.at("number_shape").get<std::vector<int64_t>>());
    }
    spec.observations.push_back(std::move(observation));
  }
  const Json& action = spaces.at("action");
  spec.action.kind = kind_named(action.at("kind").get<std::string>());
  spec.action.bins = action.at("bins").get<std::vector<int32_t>>();
  spec.action.low = action.at("low").get<std::vector<float>>();
  spec.action.high = action.at("high").get<std::vector<float>>();
  spec.action.masked = action.at("masked").get<bool>();
  spec.action_form = {.shape = action.at("number_shape").get<std::vector<int64_t>>(),
                      .dtype = action.at("number_dtype").get<std::string>(),
                      .starts = action.at("starts").get<std::vector<int64_t>>()};
  spec.max_episode_steps = spaces.at("max_episode_steps").get<int32_t>();
  return spec;
}

PythonSpec ask(const PythonTarget& target) {
  try {
    ServerProcess server(target, /*rows=*/1, Probe::yes);
    const Json answer = server.spaces();
    PythonSpec result;
    result.text = spaces_text(target, answer);
    result.spec = read_spec(target.id, answer.at("spaces"));
    result.spec.reports_success = answer.at("spaces").at("reports_success").get<bool>();
    result.agents = answer.at("spaces").at("agents").get<int64_t>();
    result.shared = answer.at("spaces").at("shared").get<bool>();
    result.seeds_alone = answer.at("spaces").at("seeds_alone").get<bool>();
    check_spec(result.spec);
    return result;
  } catch (const IoError& error) {
    throw ConfigError("env.python: " + std::string(error.what()) + "; env.id " + quoted(target.id) +
                      " needs Python 3.9 or later with numpy, expected its name or path");
  } catch (const ServerGone& error) {
    log_block(LogLevel::info, target.id, error.traceback);
    throw ConfigError("env.id: " + quoted(target.id) + " cannot be made: " + printable(error.what(), kLongestError));
  } catch (const Json::exception& error) {
    throw ConfigError("env.id: " + quoted(target.id) + " cannot be made: its process sent an unexpected answer (" +
                      printable(error.what(), 100) + ')');
  }
}

Mutex specs_mutex;
std::map<std::string, PythonSpec> specs TROUPE_GUARDED_BY(specs_mutex);  // by key_of()

std::string key_of(const PythonTarget& target) { return target.id + '\n' + target.params + '\n' + target.python; }

}  // namespace

std::string spaces_text(const PythonTarget& target, const Json& answer) {
  if (answer.contains("error")) refuse(target, answer.at("error"));
  Json spaces = answer.at("spaces");
  spaces.erase("reports_success");
  return spaces.dump();
}

PythonSpec python_spec(const PythonTarget& target) {
  {
    const MutexLock lock(specs_mutex);
    const auto found = specs.find(key_of(target));
    if (found != specs.end()) return found->second;
  }
  PythonSpec result = ask(target);
  const MutexLock lock(specs_mutex);
  return specs.insert_or_assign(key_of(target), std::move(result)).first->second;
}

}  // namespace troupe
