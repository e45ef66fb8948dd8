#pragma once
// The table of environments. Callable from any thread, before and after actors start; the returned environments are
// independent of each other.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "envs/env.h"
#include "envs/env_config.h"
#include "envs/env_info.h"

namespace troupe {

// The environment with the id, rows, chunk and parameters of the config. Throws ConfigError when the id is unknown
// (with the nearest known one) or a parameter is invalid (beginning with its path).
std::unique_ptr<Env> make_env(const EnvConfig& config);

// The number of neighbouring rows that are agents of one world, 1 for most environments. env.rows has to be a multiple
// of it. Throws as make_env() does.
int64_t rows_per_world(const EnvConfig& config, const std::string& evaluation_params = "{}");
// Throws ConfigError unless env.rows is such a multiple.
void require_whole_worlds(const EnvConfig& config);

// Throws ConfigError unless this program has the environment `id`, which the run at the address `run` needs.
void require_environment_of(const std::string& run, const std::string& id);

// Like make_env(), for an evaluation: with `rows` sub-environments (more if the agents of a world are rows: then whole
// worlds), and with `evaluation_params` (evaluation.env_params) overriding parts of env.params. Also throws ConfigError
// when the run's policy does not fit the resulting environment.
// A process of it is killed after `timeout` (evaluation.timeout_ms) if that is shorter than the limits of the config;
// 0 = never because of this.
std::unique_ptr<Env> make_evaluation_env(const EnvConfig& config, const std::string& evaluation_params, int64_t rows,
                                         std::chrono::milliseconds timeout = {});

// The id that `name` means: an id, or one without its scheme mujoco: or its version, in any case. Empty if it means
// none.
std::string environment_named(const std::string& name);

// The known id that is most similar to `id`, or empty.
std::string nearest_environment(const std::string& id);

// Every environment, in the order of the table.
std::vector<EnvInfo> list_environments();

}  // namespace troupe
