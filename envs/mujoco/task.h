#pragma once
// What makes a MuJoCo model a task: its initial states, observations, rewards and ends, as in Gymnasium's version 5.
// The arithmetic has the order and the precision of Gymnasium's, so that both give equal numbers. A task is constant
// and shared by all rows; any thread.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "envs/mujoco/library.h"
#include "envs/params.h"
#include "runtime/base/rng.h"

namespace troupe {

struct TaskStep {
  double reward = 0;
  bool terminated = false;
};

class MujocoTask {
 public:
  virtual ~MujocoTask() = default;

  // The number of float32 observations of a row.
  virtual int64_t observation_size(const MujocoSizes& sizes) const = 0;
  // Changes `qpos` and `qvel` from the model's initial state to the start of an episode.
  virtual void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const = 0;
  // The x-coordinate whose speed is rewarded; of no use to a task that rewards none.
  virtual double position(const MujocoFields& now) const = 0;
  // The outcome of a step that led to `now`. `action` [nu] is what the agent chose, `speed` the change of position()
  // per second.
  virtual TaskStep outcome(const MujocoFields& now, std::span<const float> action, double speed) const = 0;
  // Writes [observation_size].
  virtual void observe(const MujocoFields& now, double* out) const = 0;
};

}  // namespace troupe
