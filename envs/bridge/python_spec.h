#pragma once
// What an environment in Python observes and does. Any thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "envs/bridge/server_process.h"
#include "envs/env.h"

namespace troupe {

struct PythonSpec {
  EnvSpec spec;
  // As the server describes the spaces. Each later server has to describe them in the same way.
  std::string text;
  // Whether the rows of a process cannot be stepped and started one by one, as in a vector environment.
  bool shared = false;
  // Whether episodes begin in a world alone and with a seed of their own: not in a vector environment.
  bool seeds_alone = true;
  int64_t agents = 1;  // neighbouring rows that act in one world
};

// The spec of an environment. Starts a process for it, which ends before the return; the result is kept, so that the
// same environment is asked once in each process of troupe. Throws ConfigError when the interpreter, a package or the
// environment is missing, when the environment cannot be made, and for spaces that are not supported.
PythonSpec python_spec(const PythonTarget& target);

// The spaces in the answer of a server, as text. Throws ConfigError as above.
std::string spaces_text(const PythonTarget& target, const nlohmann::ordered_json& answer);

}  // namespace troupe
