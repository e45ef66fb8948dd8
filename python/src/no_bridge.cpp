// Takes the place of envs/bridge/ in the Python package: in Python, an environment written in Python needs no bridge.

#include "envs/bridge/make_python_env.h"
#include "runtime/base/errors.h"

namespace troupe {

bool is_python_id(const std::string& id) { return id.starts_with("gym:") || id.starts_with("py:"); }

std::string python_schemes() { return "gym:ID, py:MODULE:CALLABLE"; }

std::unique_ptr<Env> make_python_env(const EnvConfig& config, const std::string&) {
  throw ConfigError("env.id: \"" + config.id +
                    "\" is an environment in Python, and the environments here are those in C++: use gymnasium.make or "
                    "gymnasium.make_vec");
}

}  // namespace troupe
