// InvertedPendulum and InvertedDoublePendulum: poles that stand on a cart.

#include <cmath>

#include "envs/mujoco/task_arithmetic.h"
#include "envs/mujoco/tasks.h"

namespace troupe {

namespace {

class InvertedPendulum final : public MujocoTask {
 public:
  InvertedPendulum(const SimulationModel&, EnvParams& params) : noise_(read_noise(params, 0.01)) {}

  int64_t observation_size(const MujocoSizes&) const override { return 4; }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    add_uniform(qpos, noise_, rng);
    add_uniform(qvel, noise_, rng);
  }

  double position(const MujocoFields&) const override { return 0; }

  TaskStep outcome(const MujocoFields& now, std::span<const float>, double) const override {
    constexpr double kLargestAngle = 0.2;  // radians
    const bool upright = std::abs(now.qpos[1]) <= kLargestAngle;
    return {upright ? 1.0 : 0.0, !upright};
  }

  void observe(const MujocoFields& now, double* out) const override { write(write(out, now.qpos, 2), now.qvel, 2); }

 private:
  double noise_;
};

class InvertedDoublePendulum final : public MujocoTask {
 public:
  InvertedDoublePendulum(const SimulationModel&, EnvParams& params)
      : healthy_reward_(read_weight(params, "healthy_reward", 10.0, "reward of each step in which the poles stand")),
        noise_(read_noise(params, 0.1)) {}

  int64_t observation_size(const MujocoSizes&) const override { return 9; }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    add_uniform(qpos, noise_, rng);
    add_normal(qvel, noise_, rng);
  }

  double position(const MujocoFields&) const override { return 0; }

  TaskStep outcome(const MujocoFields& now, std::span<const float>, double) const override {
    const double x = now.site_xpos[0], z = now.site_xpos[2], v1 = now.qvel[1], v2 = now.qvel[2];
    const bool fallen = z <= 1;
    const double distance = 0.01 * (x * x) + (z - 2) * (z - 2), velocity = 1e-3 * (v1 * v1) + 5e-3 * (v2 * v2);
    return {(fallen ? 0.0 : healthy_reward_) - distance - velocity, fallen};
  }

  void observe(const MujocoFields& now, double* out) const override {
    constexpr double kLimit = 10;
    *out++ = now.qpos[0];
    for (int i = 1; i < 3; ++i) *out++ = std::sin(now.qpos[i]);
    for (int i = 1; i < 3; ++i) *out++ = std::cos(now.qpos[i]);
    out = write_clipped(out, now.qvel, 3, kLimit);
    write_clipped(out, now.qfrc_constraint, 1, kLimit);
  }

 private:
  double healthy_reward_, noise_;
};

}  // namespace

MadeTask make_inverted_pendulum(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<InvertedPendulum>(model, params);
}
MadeTask make_inverted_double_pendulum(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<InvertedDoublePendulum>(model, params);
}

}  // namespace troupe
