// Ant, Humanoid, HumanoidStandup: bodies that move in space.

#include <cmath>

#include "envs/mujoco/task_arithmetic.h"
#include "envs/mujoco/tasks.h"

namespace troupe {

namespace {

constexpr const char* kSpatialControlHelp = "weight of the squared controls, which is a cost";
constexpr const char* kContactHelp = "weight of the squared contact forces, which is a cost";
constexpr int kPlace = 2;   // x and y, which may be left out of the observation
constexpr int kForces = 6;  // of a body: torque and force

class Ant final : public MujocoTask {
 public:
  Ant(const SimulationModel& model, EnvParams& params)
      : sizes_(model.sizes()),
        forward_weight_(read_weight(params, "forward_reward_weight", 1.0, "weight of the speed")),
        control_weight_(read_weight(params, "ctrl_cost_weight", 0.5, kSpatialControlHelp)),
        contact_weight_(read_weight(params, "contact_cost_weight", 5e-4, kContactHelp)),
        healthy_reward_(read_weight(params, "healthy_reward", 1.0, "reward of each step in a healthy state")),
        body_(static_cast<int>(
            params.integer("main_body", 1, 1, model.sizes().nbody - 1, "number of the body whose speed is rewarded"))),
        ends_(read_termination(params)),
        z_(Interval::read(params, "healthy_z", {0.2, 1.0}, "limit of the healthy height, in metres")),
        force_(Interval::read(params, "contact_force", {-1, 1}, "limit to which each contact force is clipped")),
        noise_(read_noise(params, 0.1)),
        skipped_(read_exclusion(params) ? kPlace : 0),
        observes_forces_(
            params.boolean("include_cfrc_ext_in_observation", true, "observe the contact forces of the bodies")) {}

  int64_t observation_size(const MujocoSizes& sizes) const override {
    return sizes.nq + sizes.nv - skipped_ + (observes_forces_ ? kForces * (sizes.nbody - 1) : 0);
  }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    add_uniform(qpos, noise_, rng);
    add_normal(qvel, noise_, rng);
  }

  double position(const MujocoFields& now) const override { return now.xpos[3 * body_]; }

  TaskStep outcome(const MujocoFields& now, std::span<const float> action, double speed) const override {
    const bool healthy = is_healthy(now);
    const double rewards = speed * forward_weight_ + (healthy ? healthy_reward_ : 0.0);
    const double costs = static_cast<double>(control_cost(control_weight_, action)) + contact_cost(now);
    return {rewards - costs, !healthy && ends_};
  }

  void observe(const MujocoFields& now, double* out) const override {
    out = write(out, now.qpos + skipped_, sizes_.nq - skipped_);
    out = write(out, now.qvel, sizes_.nv);
    if (observes_forces_) write_forces(now, 1, out);
  }

 private:
  // The clipped forces of the bodies from number `first` on.
  void write_forces(const MujocoFields& now, int first, double* out) const {
    std::transform(now.cfrc_ext + kForces * first, now.cfrc_ext + kForces * sizes_.nbody, out,
                   [this](double force) { return std::clamp(force, force_.low, force_.high); });
  }

  double contact_cost(const MujocoFields& now) const {
    std::vector<double> forces(static_cast<size_t>(kForces * sizes_.nbody));
    write_forces(now, 0, forces.data());
    return contact_weight_ * sum_of_squares(std::span<const double>(forces));
  }

  bool is_healthy(const MujocoFields& now) const {
    const auto finite = [](double value) { return std::isfinite(value); };
    return std::all_of(now.qpos, now.qpos + sizes_.nq, finite) && std::all_of(now.qvel, now.qvel + sizes_.nv, finite) &&
           z_.low <= now.qpos[2] && now.qpos[2] <= z_.high;
  }

  MujocoSizes sizes_;
  double forward_weight_, control_weight_, contact_weight_, healthy_reward_;
  int body_;
  bool ends_;
  Interval z_, force_;
  double noise_;
  int skipped_;
  bool observes_forces_;
};

// What Humanoid and HumanoidStandup share: initial states and observations.
class HumanoidBody : public MujocoTask {
 public:
  HumanoidBody(const SimulationModel& model, EnvParams& params)
      : sizes_(model.sizes()),
        control_weight_(read_weight(params, "ctrl_cost_weight", 0.1, kSpatialControlHelp)),
        noise_(read_noise(params, 1e-2)),
        skipped_(read_exclusion(params) ? kPlace : 0),
        inertia_(params.boolean("include_cinert_in_observation", true, "observe mass and inertia of the bodies")),
        velocity_(params.boolean("include_cvel_in_observation", true, "observe the velocities of the bodies")),
        actuator_(params.boolean("include_qfrc_actuator_in_observation", true, "observe the forces of the actuators")),
        forces_(params.boolean("include_cfrc_ext_in_observation", true, "observe the contact forces of the bodies")) {}

  int64_t observation_size(const MujocoSizes& sizes) const override {
    const int bodies = sizes.nbody - 1;
    return sizes.nq + sizes.nv - skipped_ + (inertia_ ? kInertia * bodies : 0) + (velocity_ ? kForces * bodies : 0) +
           (actuator_ ? sizes.nv - kRoot : 0) + (forces_ ? kForces * bodies : 0);
  }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    add_uniform(qpos, noise_, rng);
    add_uniform(qvel, noise_, rng);
  }

  void observe(const MujocoFields& now, double* out) const override {
    const int bodies = sizes_.nbody - 1;  // all but the world
    out = write(out, now.qpos + skipped_, sizes_.nq - skipped_);
    out = write(out, now.qvel, sizes_.nv);
    if (inertia_) out = write(out, now.cinert + kInertia, kInertia * bodies);
    if (velocity_) out = write(out, now.cvel + kForces, kForces * bodies);
    if (actuator_) out = write(out, now.qfrc_actuator + kRoot, sizes_.nv - kRoot);
    if (forces_) write(out, now.cfrc_ext + kForces, kForces * bodies);
  }

 protected:
  double control_cost_of(const MujocoFields& now) const {
    return control_weight_ * sum_of_squares(std::span<const double>(now.ctrl, static_cast<size_t>(sizes_.nu)));
  }
  double contact_cost(const MujocoFields& now, double weight, double most) const {
    const std::span<const double> forces(now.cfrc_ext, static_cast<size_t>(kForces * sizes_.nbody));
    return std::min(weight * sum_of_squares(forces), most);
  }

  MujocoSizes sizes_;

 private:
  static constexpr int kInertia = 10;  // numbers of a body
  static constexpr int kRoot = 6;      // velocities of the free joint, which has no actuator

  double control_weight_, noise_;
  int skipped_;
  bool inertia_, velocity_, actuator_, forces_;
};

class Humanoid final : public HumanoidBody {
 public:
  Humanoid(const SimulationModel& model, EnvParams& params)
      : HumanoidBody(model, params),
        forward_weight_(read_weight(params, "forward_reward_weight", 1.25, "weight of the speed")),
        contact_weight_(read_weight(params, "contact_cost_weight", 5e-7, kContactHelp)),
        contact_most_(read_weight(params, "contact_cost_max", 10.0, "limit of the cost of the contact forces")),
        healthy_reward_(read_weight(params, "healthy_reward", 5.0, "reward of each step in a healthy state")),
        ends_(read_termination(params)),
        z_(Interval::read(params, "healthy_z", {1.0, 2.0}, "limit of the healthy height, in metres")) {
    for (int i = 0; i < sizes_.nbody; ++i) mass_ += sizes_.body_mass[i];
  }

  // Of the centre of mass.
  double position(const MujocoFields& now) const override {
    double moment = 0;
    for (int i = 0; i < sizes_.nbody; ++i) moment += sizes_.body_mass[i] * now.xipos[3 * i];
    return moment / mass_;
  }

  TaskStep outcome(const MujocoFields& now, std::span<const float>, double speed) const override {
    const bool healthy = z_.contains(now.qpos[2]);
    const double rewards = forward_weight_ * speed + (healthy ? healthy_reward_ : 0.0);
    const double costs = control_cost_of(now) + contact_cost(now, contact_weight_, contact_most_);
    return {rewards - costs, !healthy && ends_};
  }

 private:
  double forward_weight_, contact_weight_, contact_most_, healthy_reward_;
  bool ends_;
  Interval z_;
  double mass_ = 0;  // kg
};

class HumanoidStandup final : public HumanoidBody {
 public:
  HumanoidStandup(const SimulationModel& model, EnvParams& params)
      : HumanoidBody(model, params),
        impact_weight_(read_weight(params, "impact_cost_weight", 5e-7, kContactHelp)),
        impact_most_(read_weight(params, "impact_cost_max", 10.0, "limit of the cost of the contact forces")) {}

  double position(const MujocoFields& now) const override { return now.qpos[0]; }

  TaskStep outcome(const MujocoFields& now, std::span<const float>, double) const override {
    const double up = now.qpos[2] / sizes_.timestep;
    return {up - control_cost_of(now) - contact_cost(now, impact_weight_, impact_most_) + 1, false};
  }

 private:
  double impact_weight_, impact_most_;
};

}  // namespace

MadeTask make_ant(const SimulationModel& model, EnvParams& params) { return std::make_unique<Ant>(model, params); }
MadeTask make_humanoid(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Humanoid>(model, params);
}
MadeTask make_humanoid_standup(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<HumanoidStandup>(model, params);
}

}  // namespace troupe
