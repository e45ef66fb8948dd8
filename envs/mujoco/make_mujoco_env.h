#pragma once
// The environments mujoco:ID, such as mujoco:Hopper-v5: Gymnasium's, simulated in this process. Any thread.

#include <memory>
#include <string>
#include <vector>

#include "envs/env.h"
#include "envs/env_config.h"
#include "envs/env_table.h"

namespace troupe {

// Whether the id begins with "mujoco:".
bool is_mujoco_id(const std::string& id);

// The environment with the id, rows, chunk and parameters of the config; `evaluation_params` override some of its
// parameters. Throws ConfigError when the id is unknown, a parameter is invalid, or MuJoCo is missing.
MadeEnv make_mujoco_env(const EnvConfig& config, const std::string& evaluation_params);

// The ids, in the order of the table. Needs no MuJoCo.
std::vector<std::string> mujoco_ids();
// The description of an environment by its id: one line. Throws ConfigError when the id is unknown.
std::string mujoco_description(const std::string& id);

}  // namespace troupe
