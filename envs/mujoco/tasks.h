#pragma once
// The table of the environments mujoco:ID, and how each task is made. Any thread.

#include <memory>
#include <span>

#include "envs/mujoco/task.h"

namespace troupe {

struct MujocoTaskEntry {
  const char* name;  // "Hopper-v5"
  const char* description;
  const char* model;      // "hopper.xml"
  int frame_skip;         // time steps of the simulation in one step
  int max_episode_steps;  // a longer episode is truncated
  // Reads the task's parameters.
  std::unique_ptr<const MujocoTask> (*make)(const SimulationModel& model, EnvParams& params);
};

// All of them, in the order of `troupe envs`.
std::span<const MujocoTaskEntry> mujoco_tasks();

using MadeTask = std::unique_ptr<const MujocoTask>;

// planar_tasks.cpp
MadeTask make_half_cheetah(const SimulationModel& model, EnvParams& params);
MadeTask make_hopper(const SimulationModel& model, EnvParams& params);
MadeTask make_walker2d(const SimulationModel& model, EnvParams& params);
MadeTask make_swimmer(const SimulationModel& model, EnvParams& params);
// spatial_tasks.cpp
MadeTask make_ant(const SimulationModel& model, EnvParams& params);
MadeTask make_humanoid(const SimulationModel& model, EnvParams& params);
MadeTask make_humanoid_standup(const SimulationModel& model, EnvParams& params);
// arm_tasks.cpp
MadeTask make_reacher(const SimulationModel& model, EnvParams& params);
MadeTask make_pusher(const SimulationModel& model, EnvParams& params);
// pendulum_tasks.cpp
MadeTask make_inverted_pendulum(const SimulationModel& model, EnvParams& params);
MadeTask make_inverted_double_pendulum(const SimulationModel& model, EnvParams& params);

}  // namespace troupe
