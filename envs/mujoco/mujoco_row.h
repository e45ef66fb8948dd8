#pragma once
// One row of an environment mujoco:ID: a simulation and its task. A row class, see envs/row.h.

#include <memory>
#include <string_view>
#include <vector>

#include "envs/batched.h"
#include "envs/mujoco/library.h"
#include "envs/mujoco/task.h"

namespace troupe {

class MujocoRow {
 public:
  struct Options {
    std::shared_ptr<const SimulationModel> model;
    std::shared_ptr<const MujocoTask> task;
    int frame_skip = 1;  // time steps of the simulation in one step

    static Options read(EnvParams& params) = delete;  // they depend on the id; see make_mujoco_env
  };

  explicit MujocoRow(const Options& options);

  void reset(Rng& rng);
  RowStep step(std::span<const float> action, Rng& rng);
  void observe(RowWriter out) const;
  void save(std::string& bytes) const;
  void load(std::string_view bytes);

  // Starts an episode from these numbers instead of random ones.
  void start(const std::vector<double>& qpos, const std::vector<double>& qvel);
  // step(), with the reward in double precision.
  TaskStep advance(std::span<const float> action);
  // The observation in double precision, until the next call.
  std::span<const double> observation() const;

 private:
  const Options* options_;
  std::unique_ptr<Simulation> simulation_;
  double position_ = 0;                      // of the task, after the last step
  mutable std::vector<double> observation_;  // written by observation()
};

extern template class Batched<MujocoRow>;

}  // namespace troupe
