#include "envs/bridge/make_python_env.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "envs/bridge/python_env.h"
#include "envs/env_table.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

struct Scheme {
  const char* prefix;
  const char* form;
};

constexpr Scheme kSchemes[] = {
    {"gym:", "gym:ID"}, {"envpool:", "envpool:ID"}, {"zoo:", "zoo:MODULE"}, {"py:", "py:MODULE:CALLABLE"}};

Json object_of(const std::string& text, const std::string& path) {
  Json object = parse_strict(text, path);
  if (!object.is_object())
    throw ConfigError(path + ": " + printable(text) + " is not an object, expected {\"key\": value}");
  return object;
}

// The keyword arguments: env.params, of which an evaluation replaces some.
std::string arguments_of(const EnvConfig& config, const std::string& evaluation_params) {
  Json arguments = object_of(config.params, "env.params");
  arguments.update(object_of(evaluation_params, "evaluation.env_params"));
  return arguments.dump();
}

void require_target(const std::string& id) {
  const std::string target = id.substr(id.find(':') + 1);
  if (id.starts_with("py:") && (target.find(':') == std::string::npos || target.ends_with(':')))
    throw ConfigError("env.id: \"" + printable(id) +
                      "\" names no callable, expected py:MODULE:CALLABLE or py:FILE.py:CALLABLE");
  const auto scheme = std::ranges::find_if(kSchemes, [&](const Scheme& each) { return id.starts_with(each.prefix); });
  if (target.empty())
    throw ConfigError("env.id: \"" + printable(id) + "\" names no environment, expected " + scheme->form);
}

PythonTarget target_of(const EnvConfig& config, const std::string& evaluation_params) {
  require_target(config.id);
  if (config.python.empty()) throw ConfigError("env.python: \"\" is empty, expected the name or path of a program");
  return {config.id, arguments_of(config, evaluation_params), config.python, config.step_timeout, config.start_timeout};
}

}  // namespace

bool is_python_id(const std::string& id) {
  return std::ranges::any_of(kSchemes, [&](const Scheme& scheme) { return id.starts_with(scheme.prefix); });
}

std::string python_schemes() {
  std::string text;
  for (const Scheme& scheme : kSchemes) text += (text.empty() ? "" : ", ") + std::string(scheme.form);
  return text;
}

std::unique_ptr<Env> make_python_env(const EnvConfig& config, const std::string& evaluation_params,
                                     std::chrono::milliseconds timeout) {
  require_rows(config.rows);
  PythonTarget target = target_of(config, evaluation_params);
  lower(target.timeout, target.timeout_setting, timeout);
  lower(target.start_timeout, target.start_setting, timeout);
  PythonSpec spec = python_spec(target);
  apply_chunk(spec.spec, config);
  if (spec.shared && spec.spec.action.chunk > 1)
    throw ConfigError("env.chunk: " + std::to_string(config.chunk) + " with " + config.id +
                      ", whose rows take their steps together; expected 0 or 1");
  return std::make_unique<PythonEnv>(target, std::move(spec), config.rows, config.processes);
}

int64_t python_rows_per_world(const EnvConfig& config, const std::string& evaluation_params) {
  return python_spec(target_of(config, evaluation_params)).agents;
}

}  // namespace troupe
