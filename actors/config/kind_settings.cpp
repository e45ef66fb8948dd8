#include "actors/config/kind_settings.h"

#include "actors/config/step_rules.h"
#include "actors/config/token_rules.h"
#include "models/experience/rollout_units.h"

namespace troupe {
namespace {

const std::string& environment(const RunConfig& config) { return config.env.id; }
const std::string& task(const RunConfig& config) { return config.task.name; }

uint64_t steps_per_rollout(const RunConfig& config) {
  return static_cast<uint64_t>(config.rollout.length) * static_cast<uint64_t>(config.env.rows);
}
uint64_t answers_per_prompt(const RunConfig& config) { return static_cast<uint64_t>(config.generation.answers); }

UnitKind drawn_steps(const RunConfig& config) { return unit_kind(config.replay.draw); }
UnitKind group(const RunConfig& /*config*/) { return UnitKind::group; }

bool always(const RunConfig& /*config*/) { return true; }
bool with_critic(const RunConfig& config) { return config.model.critic != "none"; }

int64_t no_graders(const RunConfig& /*config*/) { return 0; }
int64_t verifiers(const RunConfig& config) { return config.task.verifier_processes; }

void no_check(const RunConfig& /*config*/) {}

// In the order of Experience.
constexpr KindSettings kKinds[] = {
    {.env_or_task = environment,
     .samples_per_rollout = steps_per_rollout,
     .unit = drawn_steps,
     .waits_for_late = false,
     .has_values = always,
     .graders = no_graders,
     .reward_size = "env.reward_scale",
     .rollouts = "rollouts",
     .rollout_size = "samples (rollout.length x env.rows)",
     .check = check_step_settings,
     .check_sizes = check_step_sizes},
    {.env_or_task = task,
     .samples_per_rollout = answers_per_prompt,
     .unit = group,
     .waits_for_late = true,
     .has_values = with_critic,
     .graders = verifiers,
     .reward_size = "algorithm.reward_clip",
     .rollouts = "groups",
     .rollout_size = "answers (generation.answers)",
     .check = check_answer_settings,
     .check_sizes = no_check},
};

}  // namespace

const KindSettings& settings_of_kind(const RunConfig& config) { return entry_of(kKinds, experience_of(config)); }

}  // namespace troupe
