#include "envs/env_config.h"

#include <algorithm>

namespace troupe {
namespace {

// The schemes of is_python_id() and is_library_id(), which are in folders that include this one.
bool in_python(std::string_view id) {
  return std::ranges::any_of(kWords<"gym:", "envpool:", "zoo:", "py:">,
                             [&](std::string_view scheme) { return id.starts_with(scheme); });
}
bool in_c(std::string_view id) { return id.starts_with("lib:"); }
bool in_process(std::string_view id) { return in_python(id) || in_c(id); }

constexpr Need kInPython = {.condition = is_such("env.id", in_python, "an environment in Python, like gym:ID")};
constexpr Need kInC = {.condition = is_such("env.id", in_c, "an environment in C, lib:FILE.so")};
constexpr Need kInProcess = {.condition = is_such("env.id", in_process, "an environment in Python or C, like gym:ID")};

}  // namespace

void describe(EnvConfig& c, Fields& fields) {
  const Section s(fields, "env", "envs", Change::never, {kOnlyControlRuns});
  s.add(c.id, "id",
        matching(R"(^[^\x00-\x1f\x7f]{1,1000}$)", "an environment id like CartPole-v1, of at most 1000 bytes"),
        "the environment: one that `troupe envs` lists, mujoco:ID, gym:ID of Gymnasium, envpool:ID, zoo:MODULE of "
        "PettingZoo, py:MODULE:CALLABLE, or lib:FILE.so",
        {.elsewhere = kWords<"env_id">});
  s.add_object(c.params, "params", "the environment's own parameters; keyword arguments of an environment in Python");
  s.add(c.rows, "rows", between(1, 65536), "sub-environments stepped together by one group of a worker",
        {.elsewhere = kWords<"num_envs", "n_envs">});
  s.add(
      c.chunk, "chunk", between(0, 1024),
      "environment steps executed per action, each with an action of its own; 0 = the environment's default, which is "
      "1 for most");
  s.add(c.reward_scale, "reward_scale", above(0, 1e9),
        "rewards are multiplied by this before training uses them; reports show unscaled returns");
  s.add(c.max_abs_reward, "max_abs_reward", between(0, 1e9),
        "scaled rewards are clipped to this magnitude; 0 = no clipping");
  s.add(c.normalize_actions, "normalize_actions", anything(),
        "policies use actions in [-1, 1], which are mapped linearly to the bounds of the environment",
        {.needs = {{.condition = known_later("continuous actions")}}});
  s.add(c.python, "python", anything(),
        "interpreter of environments in Python: a name in PATH, or a path; in runs from Python the interpreter of that "
        "program is the default",
        {.change = Change::at_resume, .needs = {kInPython}});
  s.add(c.processes, "processes", between(1, 1024), "processes among which the rows of one group are divided",
        {.change = Change::at_resume, .needs = {kInPython}});
  s.add(c.step_timeout, "step_timeout_ms", between(1, 86'400'000),
        "longest time for a step of an environment in Python or C; a process that takes longer is killed and started "
        "again",
        {.change = Change::at_resume, .needs = {kInProcess}});
  s.add(c.start_timeout, "start_timeout_ms", between(1, 86'400'000),
        "longest time for the start of a process of an environment in Python or C: for its imports, and for the first "
        "reset of its rows",
        {.change = Change::at_resume, .needs = {kInProcess}});
  s.add(c.isolate, "isolate", anything(),
        "run the library of lib:FILE.so in a process of its own, so that a crash in it restarts its rows and does not "
        "end the run; false saves some microseconds for each step of a group",
        {.change = Change::at_resume_unless_deterministic, .needs = {kInC}});
}

}  // namespace troupe
