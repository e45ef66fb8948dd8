#include "envs/pendulum.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace troupe {

namespace {

constexpr double kPendulumPi = std::numbers::pi, kPendulumMaxSpeed = 8.0, kPendulumGravity = 10.0,
                 kPendulumSeconds = 0.05;
constexpr float kMaxTorque = 2.0f;

// The angle in [-pi, pi).
double normalized(double angle) {
  const double turns = std::fmod(angle + kPendulumPi, 2 * kPendulumPi);
  return (turns < 0 ? turns + 2 * kPendulumPi : turns) - kPendulumPi;
}

}  // namespace

EnvSpec Pendulum::spec() {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {3}}};
  spec.action.kind = ActionKind::continuous;
  spec.action.low = {-kMaxTorque};
  spec.action.high = {kMaxTorque};
  spec.max_episode_steps = 200;
  return spec;
}

void Pendulum::reset(Rng& rng) {
  state.theta = -kPendulumPi + 2 * kPendulumPi * rng.uniform_double();
  state.speed = -1.0 + 2.0 * rng.uniform_double();
}

RowStep Pendulum::step(std::span<const float> action, Rng&) {
  auto& [theta, speed] = state;
  const float torque = action[0];  // Gymnasium computes the torque's terms in float32, the rest in float64
  const double angle = normalized(theta);
  const double cost = angle * angle + 0.1 * (speed * speed) + static_cast<double>(0.001f * (torque * torque));
  speed += (3 * kPendulumGravity / 2 * std::sin(theta) + static_cast<double>(3.0f * torque)) * kPendulumSeconds;
  speed = std::clamp(speed, -kPendulumMaxSpeed, kPendulumMaxSpeed);
  theta += speed * kPendulumSeconds;
  return {.reward = static_cast<float>(-cost)};
}

void Pendulum::observe(RowWriter out) const {
  const std::span<float> values = out.array<float>();
  values[0] = static_cast<float>(std::cos(state.theta));
  values[1] = static_cast<float>(std::sin(state.theta));
  values[2] = static_cast<float>(state.speed);
}

std::string Pendulum::render() const {
  constexpr int kRows = 9, kColumns = 19;
  std::string picture(static_cast<size_t>(kRows * (kColumns + 1)), ' ');
  for (int r = 0; r < kRows; ++r) picture[static_cast<size_t>(r * (kColumns + 1) + kColumns)] = '\n';
  const auto draw = [&](double length, char mark) {
    const int column = static_cast<int>(std::lround((1 - length * std::sin(state.theta)) / 2 * (kColumns - 1)));
    const int row = static_cast<int>(std::lround((1 - length * std::cos(state.theta)) / 2 * (kRows - 1)));
    picture[static_cast<size_t>(row * (kColumns + 1) + column)] = mark;
  };
  for (double length : {0.25, 0.5, 0.75}) draw(length, '.');
  draw(0, '+');
  draw(1, 'O');
  char numbers[80];
  std::snprintf(numbers, sizeof(numbers), "angle %+.2f  speed %+.2f\n", normalized(state.theta), state.speed);
  return picture + numbers;
}

template class Batched<Pendulum>;

}  // namespace troupe
