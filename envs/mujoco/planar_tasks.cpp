// HalfCheetah, Hopper, Walker2d, Swimmer: bodies that move in a plane. Observations: positions, then velocities.

#include "envs/mujoco/task_arithmetic.h"
#include "envs/mujoco/tasks.h"

namespace troupe {

namespace {

constexpr const char* kForwardHelp = "weight of the speed";
constexpr const char* kPlanarControlHelp = "weight of the squared action, which is a cost";
constexpr double kVelocityLimit = 10;  // of the observed velocities of Hopper and Walker2d

// Reward: weight of the speed, minus the cost of the action; never terminated.
class Runner : public MujocoTask {
 public:
  struct Defaults {
    double control_weight, noise;
    int positions;      // of the body in space, which may be left out of the observation
    bool normal_noise;  // whether the noise of the velocities is normal, not uniform
  };

  Runner(const SimulationModel& model, EnvParams& params, const Defaults& defaults)
      : sizes_(model.sizes()),
        forward_weight_(read_weight(params, "forward_reward_weight", 1.0, kForwardHelp)),
        control_weight_(read_weight(params, "ctrl_cost_weight", defaults.control_weight, kPlanarControlHelp)),
        noise_(read_noise(params, defaults.noise)),
        skipped_(read_exclusion(params) ? defaults.positions : 0),
        normal_noise_(defaults.normal_noise) {}

  int64_t observation_size(const MujocoSizes& sizes) const override { return sizes.nq + sizes.nv - skipped_; }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    add_uniform(qpos, noise_, rng);
    normal_noise_ ? add_normal(qvel, noise_, rng) : add_uniform(qvel, noise_, rng);
  }

  double position(const MujocoFields& now) const override { return now.qpos[0]; }

  TaskStep outcome(const MujocoFields&, std::span<const float> action, double speed) const override {
    return {forward_weight_ * speed - static_cast<double>(control_cost(control_weight_, action)), false};
  }

  void observe(const MujocoFields& now, double* out) const override {
    out = write(out, now.qpos + skipped_, sizes_.nq - skipped_);
    write(out, now.qvel, sizes_.nv);
  }

 protected:
  MujocoSizes sizes_;
  double forward_weight_, control_weight_, noise_;
  int skipped_;
  bool normal_noise_;
};

// Also rewards every step in a healthy state; terminated when unhealthy.
class Walker : public Runner {
 public:
  struct Healthy {
    Interval z, angle;
    bool has_state = false;  // whether all numbers of the state but the first two are limited
  };

  Walker(const SimulationModel& model, EnvParams& params, const Healthy& healthy)
      : Runner(model, params, {.control_weight = 1e-3, .noise = 5e-3, .positions = 1, .normal_noise = false}),
        healthy_reward_(read_weight(params, "healthy_reward", 1.0, "reward of each step in a healthy state")),
        ends_(read_termination(params)),
        z_(Interval::read(params, "healthy_z", healthy.z, "limit of the healthy height, in metres")),
        angle_(Interval::read(params, "healthy_angle", healthy.angle, "limit of the healthy angle, in radians")) {
    if (healthy.has_state)
      state_ = Interval::read(params, "healthy_state", state_, "limit of every other healthy position and velocity");
    limits_state_ = healthy.has_state;
  }

  TaskStep outcome(const MujocoFields& now, std::span<const float> action, double speed) const override {
    const bool healthy = is_healthy(now);
    const double rewards = forward_weight_ * speed + (healthy ? healthy_reward_ : 0.0);
    return {rewards - static_cast<double>(control_cost(control_weight_, action)), !healthy && ends_};
  }

  void observe(const MujocoFields& now, double* out) const override {
    out = write(out, now.qpos + skipped_, sizes_.nq - skipped_);
    write_clipped(out, now.qvel, sizes_.nv, kVelocityLimit);
  }

 private:
  bool is_healthy(const MujocoFields& now) const {
    const auto inside = [this](double value) { return state_.contains(value); };
    return z_.contains(now.qpos[1]) && angle_.contains(now.qpos[2]) &&
           (!limits_state_ || (std::all_of(now.qpos + 2, now.qpos + sizes_.nq, inside) &&
                               std::all_of(now.qvel, now.qvel + sizes_.nv, inside)));
  }

  double healthy_reward_;
  bool ends_;
  Interval z_, angle_;
  Interval state_ = {-100, 100};
  bool limits_state_ = false;
};

}  // namespace

MadeTask make_half_cheetah(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Runner>(
      model, params, Runner::Defaults{.control_weight = 0.1, .noise = 0.1, .positions = 1, .normal_noise = true});
}

MadeTask make_swimmer(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Runner>(
      model, params, Runner::Defaults{.control_weight = 1e-4, .noise = 0.1, .positions = 2, .normal_noise = false});
}

MadeTask make_hopper(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Walker>(
      model, params, Walker::Healthy{.z = {0.7, Interval::kUnlimited}, .angle = {-0.2, 0.2}, .has_state = true});
}

MadeTask make_walker2d(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Walker>(model, params, Walker::Healthy{.z = {0.8, 2.0}, .angle = {-1.0, 1.0}});
}

}  // namespace troupe
