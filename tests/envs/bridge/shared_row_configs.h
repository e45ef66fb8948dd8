#pragma once
// Configs of environments in Python whose rows are stepped together.

#include "envs/bridge/python_env.h"
#include "tests/envs/bridge/python_fixtures.h"

namespace troupe::test {

inline EnvConfig shared_config(const std::string& scheme, const std::string& name, int64_t rows,
                               const std::string& params = "{}", int64_t processes = 1) {
  EnvConfig config = python_config(name, rows, params, processes);
  config.id = scheme + ":tests/envs/bridge/shared_environments.py:" + name;
  return config;
}

inline EnvConfig vector_config(const std::string& mode, int64_t rows, const std::string& more = "",
                               int64_t processes = 1) {
  return shared_config("py", "Vector", rows, R"({"mode": ")" + mode + "\"" + more + "}", processes);
}

inline EnvConfig zoo_config(int64_t rows, const std::string& params = "{}", int64_t processes = 1) {
  return shared_config("zoo", "Parallel", rows, params, processes);
}

}  // namespace troupe::test
