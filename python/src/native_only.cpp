// Takes the place of envs/bridge/, envs/c_abi/ and envs/mujoco/ in the Python package, where Gymnasium itself makes
// such environments.

#include "envs/bridge/make_python_env.h"
#include "envs/c_abi/library_env.h"
#include "envs/mujoco/make_mujoco_env.h"
#include "runtime/base/errors.h"

namespace troupe {
namespace {

[[noreturn]] void refuse(const std::string& id) {
  throw ConfigError("env.id: \"" + id +
                    "\" is not one of the environments here, which are those that need no other library: use "
                    "gymnasium.make or gymnasium.make_vec");
}

}  // namespace

// Every id with a scheme.
bool is_python_id(const std::string& id) { return id.find(':') != std::string::npos; }
std::string python_schemes() { return ""; }
std::unique_ptr<Env> make_python_env(const EnvConfig& config, const std::string&, std::chrono::milliseconds) {
  refuse(config.id);
}
int64_t python_rows_per_world(const EnvConfig& config, const std::string&) { refuse(config.id); }

bool is_mujoco_id(const std::string&) { return false; }
MadeEnv make_mujoco_env(const EnvConfig& config, const std::string&) { refuse(config.id); }
std::vector<std::string> mujoco_ids() { return {}; }

bool is_library_id(const std::string&) { return false; }
std::unique_ptr<Env> make_library_env(const EnvConfig& config, const std::string&, std::chrono::milliseconds) {
  refuse(config.id);
}

}  // namespace troupe
