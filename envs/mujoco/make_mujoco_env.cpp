#include "envs/mujoco/make_mujoco_env.h"

#include <algorithm>

#include "envs/mujoco/mujoco_row.h"
#include "envs/mujoco/tasks.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::string_view kPrefix = "mujoco:";

const MujocoTaskEntry& entry_of(const std::string& id) {
  const std::string name = id.substr(kPrefix.size());
  std::vector<std::string> names;
  for (const MujocoTaskEntry& entry : mujoco_tasks()) {
    if (entry.name == name) return entry;
    names.emplace_back(entry.name);
  }
  const std::string near = closest(name, names);
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  throw ConfigError("env.id: \"" + printable(id) + "\" is unknown, " +
                    (near.empty() ? "expected mujoco: and one of " + known
                                  : "did you mean \"" + std::string(kPrefix) + near + "\"?"));
}

EnvSpec spec_of(const MujocoRow::Options& options, const std::string& id, int64_t max_episode_steps) {
  const MujocoSizes& sizes = options.model->sizes();
  EnvSpec spec;
  spec.id = id;
  spec.observations = {{"state", DType::f32, {options.task->observation_size(sizes)}}};
  spec.action.kind = ActionKind::continuous;
  for (int i = 0; i < sizes.nu; ++i) {
    spec.action.low.push_back(static_cast<float>(sizes.control_range[2 * i]));
    spec.action.high.push_back(static_cast<float>(sizes.control_range[2 * i + 1]));
  }
  spec.max_episode_steps = static_cast<int32_t>(max_episode_steps);
  return spec;
}

}  // namespace

bool is_mujoco_id(const std::string& id) { return id.starts_with(kPrefix); }

MadeEnv make_mujoco_env(const EnvConfig& config, const std::string& evaluation_params) {
  const MujocoTaskEntry& entry = entry_of(config.id);
  require_rows(config.rows);
  EnvParams params(config.params, evaluation_params);
  MujocoRow::Options options;
  options.model = std::make_shared<const SimulationModel>(config.id, entry.model);
  options.task = entry.make(*options.model, params);
  options.frame_skip = static_cast<int>(
      params.integer("frame_skip", entry.frame_skip, 1, 1000, "time steps of the simulation in one step"));
  const int64_t limit = params.integer("max_episode_steps", entry.max_episode_steps, 1, 1'000'000'000,
                                       "steps after which an episode is truncated");
  params.finish();
  EnvSpec spec = spec_of(options, config.id, limit);
  apply_chunk(spec, config);
  const std::string identity = spec.id + " with " + params.text();
  return {std::make_unique<Batched<MujocoRow>>(std::move(spec), config.rows, std::move(options), identity),
          params.text(), params.asked()};
}

std::vector<std::string> mujoco_ids() {
  std::vector<std::string> ids;
  for (const MujocoTaskEntry& entry : mujoco_tasks()) ids.push_back(std::string(kPrefix) + entry.name);
  return ids;
}

std::string mujoco_description(const std::string& id) { return entry_of(id).description; }

}  // namespace troupe
