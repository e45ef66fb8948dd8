#pragma once
// Environments written in Python, by id: "gym:CartPole-v1" is made by gymnasium.make, "envpool:Pong-v5" by
// envpool.make, "zoo:butterfly.pistonball_v6" by the function parallel_env of that module of PettingZoo,
// "py:module:callable" and "py:folder/file.py:callable" by the callable. Any thread.

#include <chrono>
#include <memory>
#include <string>

#include "envs/env.h"
#include "envs/env_config.h"

namespace troupe {

// Whether the id begins with one of the schemes of environments in Python.
bool is_python_id(const std::string& id);
// The forms of their ids, for messages: "gym:ID, py:MODULE:CALLABLE".
std::string python_schemes();

// The environment with the id, rows, chunk and parameters of the config; `evaluation_params` override some of its
// parameters. Starts a process that describes it, unless this process of troupe has asked before. Throws ConfigError.
// `timeout` as for make_evaluation_env().
std::unique_ptr<Env> make_python_env(const EnvConfig& config, const std::string& evaluation_params,
                                     std::chrono::milliseconds timeout);
// rows_per_world() of envs/make/make_env.h, for an id of these schemes.
int64_t python_rows_per_world(const EnvConfig& config, const std::string& evaluation_params);

}  // namespace troupe
