#include "envs/make/make_env.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "envs/acrobot.h"
#include "envs/bridge/make_python_env.h"
#include "envs/c_abi/library_env.h"
#include "envs/cart_pole.h"
#include "envs/corridor.h"
#include "envs/env_table.h"
#include "envs/grid_world.h"
#include "envs/mountain_car.h"
#include "envs/mujoco/make_mujoco_env.h"
#include "envs/normalized_actions.h"
#include "envs/pendulum.h"
#include "envs/synthetic.h"
#include "envs/token_reach.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// One line per environment.
std::span<const EnvEntry> table() {
  static const EnvEntry entries[] = {
      {"CartPole-v1", "balance a pole on a cart by pushing it left or right", make_rows<CartPole>},
      {"Acrobot-v1", "swing a two-link arm above its base with a motor between the links", make_rows<Acrobot>},
      {"MountainCar-v0", "drive a weak car out of a valley, reward -1 per step", make_rows<MountainCar>},
      {"MountainCarContinuous-v0", "drive a weak car out of a valley, reward 100 minus the energy used",
       make_rows<MountainCarContinuous>},
      {"Pendulum-v1", "swing a pendulum up with a weak motor and hold it there", make_rows<Pendulum>},
      {"GridWorld", "find the goal among walls and pits; masked moves, known optimum", make_rows<GridWorld>},
      {"TokenReach", "eight reach tasks in the plane; actions are chunks of 8 x 2 tokens", make_rows<TokenReach>},
      {"Synthetic", "a load generator: image and numbers, configurable step time, injected faults",
       make_rows<Synthetic>},
      {"Corridor", "walk right to the door; the worked example of the documentation", make_rows<Corridor>},
  };
  return entries;
}

// The id without its version, which users often omit or get wrong: "CartPole" of "CartPole-v1".
std::string without_version(const std::string& id) {
  const size_t mark = id.find_last_not_of("0123456789");
  const bool version = mark != std::string::npos && mark > 0 && mark + 1 < id.size() && std::tolower(id[mark]) == 'v' &&
                       (id[mark - 1] == '-' || id[mark - 1] == '_');
  return version ? id.substr(0, mark - 1) : id;
}

// "Hopper-v5" of "mujoco:Hopper-v5".
std::string without_scheme(const std::string& id) { return is_mujoco_id(id) ? id.substr(id.find(':') + 1) : id; }

// The ids of all environments that are part of the program.
std::vector<std::string> known_ids() {
  std::vector<std::string> ids;
  for (const EnvEntry& entry : table()) ids.emplace_back(entry.id);
  const std::vector<std::string> of_mujoco = mujoco_ids();
  ids.insert(ids.end(), of_mujoco.begin(), of_mujoco.end());
  return ids;
}

std::unique_ptr<Env> make_with_bounds(const EnvConfig& config, const std::string& evaluation_params,
                                      std::chrono::milliseconds timeout) {
  for (const EnvEntry& entry : table())
    if (config.id == entry.id) return entry.make(entry.id, config, evaluation_params).env;
  if (is_python_id(config.id)) return make_python_env(config, evaluation_params, timeout);
  if (is_mujoco_id(config.id)) return make_mujoco_env(config, evaluation_params).env;
  if (is_library_id(config.id)) return make_library_env(config, evaluation_params, timeout);
  if (const size_t colon = config.id.find(':'); colon != std::string::npos)
    throw ConfigError("env.id: \"" + printable(config.id) + "\" begins with an unknown scheme, expected one of: " +
                      python_schemes() + ", mujoco:ID, " + kLibraryForm);
  const std::string near = nearest_environment(config.id);
  throw ConfigError("env.id: \"" + config.id + "\" is unknown, " +
                    (near.empty() ? "`troupe envs` lists them" : "did you mean \"" + near + "\"?"));
}

std::unique_ptr<Env> make(const EnvConfig& config, const std::string& evaluation_params,
                          std::chrono::milliseconds timeout = {}) {
  std::unique_ptr<Env> env = make_with_bounds(config, evaluation_params, timeout);
  return config.normalize_actions ? with_normalized_actions(std::move(env)) : std::move(env);
}

// Whether both environments have the same actions and observations, so that one policy fits both.
bool fits_same_policy(const EnvSpec& a, const EnvSpec& b) {
  const auto same = [](const ArraySpec& x, const ArraySpec& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape;
  };
  return std::ranges::equal(a.observations, b.observations, same) && a.action == b.action;
}

}  // namespace

std::string environment_named(const std::string& name) {
  if (is_python_id(name) || is_library_id(name)) return name;
  constexpr size_t kLongest = 100;  // comparing takes the square of it
  const std::string wanted = without_version(without_scheme(name));
  if (wanted.size() > kLongest) return "";
  for (const std::string& id : known_ids())
    if (edit_distance(wanted, without_version(without_scheme(id))) == 0) return id;  // it ignores case
  return "";
}

std::string nearest_environment(const std::string& id) {
  const std::vector<std::string> ids = known_ids();
  std::vector<std::string> names;
  for (const std::string& each : ids) names.push_back(without_version(without_scheme(each)));
  const auto found = std::ranges::find(names, closest(without_version(id), names));
  return found == names.end() ? "" : ids[static_cast<size_t>(found - names.begin())];
}

std::unique_ptr<Env> make_env(const EnvConfig& config) { return make(config, "{}"); }

int64_t rows_per_world(const EnvConfig& config, const std::string& evaluation_params) {
  return is_python_id(config.id) ? python_rows_per_world(config, evaluation_params) : 1;
}

void require_whole_worlds(const EnvConfig& config) {
  const int64_t agents = rows_per_world(config);
  if (config.rows % agents != 0)
    throw ConfigError("env.rows: " + std::to_string(config.rows) + " is not right, expected a multiple of " +
                      std::to_string(agents) + ", the number of agents of " + config.id);
}

void require_environment_of(const std::string& run, const std::string& id) {
  if (is_python_id(id) || is_mujoco_id(id) || is_library_id(id))
    return;  // making it finds out whether this machine has it
  if (std::ranges::any_of(table(), [&](const EnvEntry& entry) { return entry.id == id; })) return;
  throw ConfigError(run + ": the run needs the environment \"" + printable(id) +
                    "\", which this program does not have; use a program built from the same sources as the run's");
}

std::unique_ptr<Env> make_evaluation_env(const EnvConfig& config, const std::string& evaluation_params, int64_t rows,
                                         std::chrono::milliseconds timeout) {
  EnvConfig of_run = config, of_evaluation = config;
  of_run.rows = 1;
  const int64_t agents = rows_per_world(config, evaluation_params);
  of_evaluation.rows = (rows + agents - 1) / agents * agents;
  std::unique_ptr<Env> env = make(of_evaluation, evaluation_params, timeout);
  if (!fits_same_policy(env->spec(), make_env(of_run)->spec()))
    throw ConfigError("evaluation.env_params: " + printable(evaluation_params, 200) +
                      " change the observations or actions, so that the run's policy does not fit; set "
                      "such parameters in env.params");
  return env;
}

std::vector<EnvInfo> list_environments() { return list_environments(table()); }

}  // namespace troupe
