// Reacher and Pusher: arms that are rewarded for distances to a target.

#include <array>
#include <cmath>

#include "envs/mujoco/task_arithmetic.h"
#include "envs/mujoco/tasks.h"

namespace troupe {

namespace {

using ArmVector = std::array<double, 3>;

constexpr const char* kControlHelp = "weight of the squared action, which is a cost";
constexpr double kVelocityNoise = 0.005;

double length(const ArmVector& v) { return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }

ArmVector between(const MujocoFields& now, int from, int to) {
  const double *a = now.xpos + 3 * from, *b = now.xpos + 3 * to;
  return {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
}

double uniform(Rng& rng, double low, double high) { return low + (high - low) * rng.uniform_double(); }

class Reacher final : public MujocoTask {
 public:
  Reacher(const SimulationModel& model, EnvParams& params)
      : fingertip_(model.body("fingertip")),
        target_(model.body("target")),
        distance_weight_(read_weight(params, "reward_dist_weight", 1, "weight of the distance to the target")),
        control_weight_(read_weight(params, "reward_control_weight", 1, kControlHelp)) {}

  int64_t observation_size(const MujocoSizes&) const override { return 10; }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    constexpr double kAngles = 0.1, kReach = 0.2;  // radians, metres
    add_uniform(qpos, kAngles, rng);
    add_uniform(qvel, kVelocityNoise, rng);
    double* target = &qpos[qpos.size() - 2];
    do {
      target[0] = uniform(rng, -kReach, kReach);
      target[1] = uniform(rng, -kReach, kReach);
    } while (std::hypot(target[0], target[1]) >= kReach);
    std::fill(qvel.end() - 2, qvel.end(), 0.0);
  }

  double position(const MujocoFields&) const override { return 0; }

  TaskStep outcome(const MujocoFields& now, std::span<const float> action, double) const override {
    const double near = -length(between(now, target_, fingertip_)) * distance_weight_;
    return {near - static_cast<double>(control_cost(control_weight_, action)), false};
  }

  void observe(const MujocoFields& now, double* out) const override {
    for (int i = 0; i < 2; ++i) *out++ = std::cos(now.qpos[i]);
    for (int i = 0; i < 2; ++i) *out++ = std::sin(now.qpos[i]);
    out = write(out, now.qpos + 2, 2);
    out = write(out, now.qvel, 2);
    write(out, between(now, target_, fingertip_).data(), 2);
  }

 private:
  int fingertip_, target_;
  double distance_weight_, control_weight_;
};

class Pusher final : public MujocoTask {
 public:
  Pusher(const SimulationModel& model, EnvParams& params)
      : tip_(model.body("tips_arm")),
        object_(model.body("object")),
        goal_(model.body("goal")),
        near_weight_(read_weight(params, "reward_near_weight", 0.5, "weight of the distance from arm to object")),
        distance_weight_(read_weight(params, "reward_dist_weight", 1, "weight of the distance from object to target")),
        control_weight_(read_weight(params, "reward_control_weight", 0.1, kControlHelp)) {}

  int64_t observation_size(const MujocoSizes&) const override { return 2 * kJoints + 9; }

  void randomize(std::vector<double>& qpos, std::vector<double>& qvel, Rng& rng) const override {
    constexpr double kNearest = 0.17;  // of the object to the target, in metres
    add_uniform(qvel, kVelocityNoise, rng);
    double* object = &qpos[qpos.size() - 4];
    do {
      object[0] = uniform(rng, -0.3, 0);
      object[1] = uniform(rng, -0.2, 0.2);
    } while (std::hypot(object[0], object[1]) <= kNearest);
    std::fill(qpos.end() - 2, qpos.end(), 0.0);
    std::fill(qvel.end() - 4, qvel.end(), 0.0);
  }

  double position(const MujocoFields&) const override { return 0; }

  TaskStep outcome(const MujocoFields& now, std::span<const float> action, double) const override {
    const double near = -length(between(now, tip_, object_)) * near_weight_;
    const double distance = -length(between(now, goal_, object_)) * distance_weight_;
    return {distance - static_cast<double>(control_cost(control_weight_, action)) + near, false};
  }

  void observe(const MujocoFields& now, double* out) const override {
    out = write(out, now.qpos, kJoints);
    out = write(out, now.qvel, kJoints);
    for (const int body : {tip_, object_, goal_}) out = write(out, now.xpos + 3 * body, 3);
  }

 private:
  static constexpr int kJoints = 7;

  int tip_, object_, goal_;
  double near_weight_, distance_weight_, control_weight_;
};

}  // namespace

MadeTask make_reacher(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Reacher>(model, params);
}
MadeTask make_pusher(const SimulationModel& model, EnvParams& params) {
  return std::make_unique<Pusher>(model, params);
}

}  // namespace troupe
