#pragma once
// The table of environments. Used before and after actors start, from any thread; the environments are independent
// objects.

#include <memory>
#include <string>
#include <vector>

#include "envs/env.h"
#include "envs/env_config.h"
#include "runtime/config/setting.h"

namespace troupe {

// The environment of that id with its rows, chunk and parameters. Throws ConfigError when the id is unknown (naming
// the closest one) or a parameter is not right (its path begins the message).
std::unique_ptr<Env> make_env(const EnvConfig& config);

// Throws ConfigError when the run at the address `run` needs an environment that this program does not have.
void require_environment_of(const std::string& run, const std::string& id);

// As make_env, for an evaluation: `rows` sub-environments, `evaluation_params` (evaluation.env_params) in place of some
// of env.params. Throws ConfigError also when these make an environment that the run's policy does not fit.
std::unique_ptr<Env> make_evaluation_env(const EnvConfig& config, const std::string& evaluation_params, int64_t rows);

// The id that was probably meant, or empty.
std::string nearest_environment(const std::string& id);

struct EnvInfo {
  std::string id;
  std::string description;              // one line
  std::string params;                   // parameters with their defaults: "size=8 slip=0"; empty when there are none
  std::vector<SettingInfo> parameters;  // the same in words
  EnvSpec spec;                         // with default parameters
  std::string error;  // why it cannot be made, naming it; empty when it can. Otherwise `params` and `spec` are empty
};

// Every environment, in the order of the table.
std::vector<EnvInfo> list_environments();

}  // namespace troupe
