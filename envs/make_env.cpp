#include "envs/make_env.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "envs/acrobot.h"
#include "envs/cart_pole.h"
#include "envs/corridor.h"
#include "envs/grid_world.h"
#include "envs/mountain_car.h"
#include "envs/params.h"
#include "envs/pendulum.h"
#include "envs/synthetic.h"
#include "envs/token_reach.h"
#include "runtime/suggest.h"

namespace troupe {

namespace {

struct Made {
  std::unique_ptr<Env> env;
  std::string params;
};

struct Entry {
  const char* id;
  const char* description;
  Made (*make)(const char* id, const EnvConfig& config, const std::string& evaluation_params);
};

void apply_chunk(EnvSpec& spec, const EnvConfig& config) {
  constexpr int64_t kMaxChunk = 1024;
  if (config.chunk < 0 || config.chunk > kMaxChunk)
    throw ConfigError("env.chunk: " + std::to_string(config.chunk) + " is not right, expected an integer in [0, " +
                      std::to_string(kMaxChunk) + "], where 0 is the environment's own");
  if (config.chunk > 0) spec.action.chunk = static_cast<int32_t>(config.chunk);
  if (spec.action.masked && spec.action.chunk != 1)
    throw ConfigError("env.chunk: " + std::to_string(config.chunk) + " with " + spec.id +
                      ", whose action mask is known for one step only, expected 1");
}

template <class Row>
Made make_rows(const char* id, const EnvConfig& config, const std::string& evaluation_params) {
  using Options = typename Batched<Row>::Options;
  constexpr int64_t kMaxRows = 65536;
  if (config.rows < 1 || config.rows > kMaxRows)
    throw ConfigError("env.rows: " + std::to_string(config.rows) + " is not right, expected an integer in [1, " +
                      std::to_string(kMaxRows) + "]");
  EnvParams params(config.params, evaluation_params);
  Options options;
  if constexpr (!std::is_same_v<Options, NoOptions>) options = Options::read(params);
  params.finish();
  EnvSpec spec;
  if constexpr (std::is_same_v<Options, NoOptions>)
    spec = Row::spec();
  else
    spec = Row::spec(options);
  spec.id = id;
  apply_chunk(spec, config);
  const std::string identity = spec.id + (params.text().empty() ? "" : " with " + params.text());
  return {std::make_unique<Batched<Row>>(std::move(spec), config.rows, std::move(options), identity), params.text()};
}

// One line per environment.
std::span<const Entry> table() {
  static const Entry entries[] = {
      {"CartPole-v1", "balance a pole on a cart by pushing it left or right", make_rows<CartPole>},
      {"Acrobot-v1", "swing a two-link arm above its base with a motor between the links", make_rows<Acrobot>},
      {"MountainCar-v0", "drive a weak car out of a valley, reward -1 per step", make_rows<MountainCar>},
      {"MountainCarContinuous-v0", "drive a weak car out of a valley, reward 100 minus the energy used",
       make_rows<MountainCarContinuous>},
      {"Pendulum-v1", "swing a pendulum up with a weak motor and hold it there", make_rows<Pendulum>},
      {"GridWorld", "find the goal among walls and pits; masked moves, known optimum", make_rows<GridWorld>},
      {"TokenReach", "eight reach tasks in the plane; actions are chunks of 8 x 2 tokens", make_rows<TokenReach>},
      {"Synthetic", "a load: image and numbers, chosen step time, faults on demand", make_rows<Synthetic>},
      {"Corridor", "walk right to the door; the worked example of the documentation", make_rows<Corridor>},
  };
  return entries;
}

// An id without its version, which is what users leave out or get wrong: "CartPole" of "CartPole-v1".
std::string without_version(const std::string& id) {
  const size_t mark = id.find_last_not_of("0123456789");
  const bool version = mark != std::string::npos && mark > 0 && mark + 1 < id.size() && std::tolower(id[mark]) == 'v' &&
                       (id[mark - 1] == '-' || id[mark - 1] == '_');
  return version ? id.substr(0, mark - 1) : id;
}

// The id that was probably meant, or empty.
std::string nearest_id(const std::string& id) {
  std::vector<std::string> names;
  for (const Entry& entry : table()) names.push_back(without_version(entry.id));
  const auto found = std::ranges::find(names, closest(without_version(id), names));
  return found == names.end() ? "" : table()[static_cast<size_t>(found - names.begin())].id;
}

std::unique_ptr<Env> make(const EnvConfig& config, const std::string& evaluation_params) {
  for (const Entry& entry : table())
    if (config.id == entry.id) return entry.make(entry.id, config, evaluation_params).env;
  const std::string near = nearest_id(config.id);
  throw ConfigError("env.id: \"" + config.id + "\" is unknown, " +
                    (near.empty() ? "`troupe envs` lists them" : "did you mean \"" + near + "\"?"));
}

// What a policy is built from.
bool fits_same_policy(const EnvSpec& a, const EnvSpec& b) {
  const auto same = [](const ArraySpec& x, const ArraySpec& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape;
  };
  return std::ranges::equal(a.observations, b.observations, same) && a.action == b.action;
}

}  // namespace

std::unique_ptr<Env> make_env(const EnvConfig& config) { return make(config, "{}"); }

std::unique_ptr<Env> make_evaluation_env(const RunConfig& config, int64_t rows) {
  EnvConfig of_run = config.env, of_evaluation = config.env;
  of_run.rows = 1;
  of_evaluation.rows = rows;
  std::unique_ptr<Env> env = make(of_evaluation, config.evaluation.env_params);
  if (!fits_same_policy(env->spec(), make_env(of_run)->spec()))
    throw ConfigError(
        "evaluation.env_params: " + printable(config.evaluation.env_params, 200) +
        " change what is observed or which actions there are, so that the run's policy does not fit; leave "
        "such parameters to env.params");
  return env;
}

std::vector<EnvInfo> list_environments() {
  std::vector<EnvInfo> infos;
  for (const Entry& entry : table()) {
    EnvConfig config;
    config.id = entry.id;
    config.rows = 1;
    const Made made = entry.make(entry.id, config, "{}");
    infos.push_back({entry.id, entry.description, made.params, made.env->spec()});
  }
  return infos;
}

}  // namespace troupe
