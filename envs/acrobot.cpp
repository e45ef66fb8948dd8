#include "envs/acrobot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace troupe {

namespace {

constexpr double kAcrobotPi = std::numbers::pi, kAcrobotGravity = 9.8, kAcrobotSeconds = 0.2, kLength1 = 1.0;
constexpr double kMass1 = 1.0, kMass2 = 1.0, kCenter1 = 0.5, kCenter2 = 0.5, kInertia = 1.0;
constexpr double kMaxSpeed1 = 4 * kAcrobotPi, kMaxSpeed2 = 9 * kAcrobotPi;

using Vector = std::array<double, 4>;  // theta1, theta2, speed1, speed2

// The equations of motion in the form of Sutton and Barto's book.
Vector derivative(const Vector& s, double torque) {
  const auto [theta1, theta2, speed1, speed2] = s;
  const double cosine2 = std::cos(theta2), sine2 = std::sin(theta2);
  const double d1 = kMass1 * (kCenter1 * kCenter1) +
                    kMass2 * (kLength1 * kLength1 + kCenter2 * kCenter2 + 2 * kLength1 * kCenter2 * cosine2) +
                    kInertia + kInertia;
  const double d2 = kMass2 * (kCenter2 * kCenter2 + kLength1 * kCenter2 * cosine2) + kInertia;
  const double phi2 = kMass2 * kCenter2 * kAcrobotGravity * std::cos(theta1 + theta2 - kAcrobotPi / 2.0);
  const double phi1 = -kMass2 * kLength1 * kCenter2 * (speed2 * speed2) * sine2 -
                      2 * kMass2 * kLength1 * kCenter2 * speed2 * speed1 * sine2 +
                      (kMass1 * kCenter1 + kMass2 * kLength1) * kAcrobotGravity * std::cos(theta1 - kAcrobotPi / 2) +
                      phi2;
  const double acc2 = (torque + d2 / d1 * phi1 - kMass2 * kLength1 * kCenter2 * (speed1 * speed1) * sine2 - phi2) /
                      (kMass2 * (kCenter2 * kCenter2) + kInertia - d2 * d2 / d1);
  return {speed1, speed2, -(d2 * acc2 + phi1) / d1, acc2};
}

Vector moved(const Vector& s, double seconds, const Vector& rate) {
  return {s[0] + seconds * rate[0], s[1] + seconds * rate[1], s[2] + seconds * rate[2], s[3] + seconds * rate[3]};
}

// One step of the classical fourth-order Runge-Kutta method.
Vector integrate(const Vector& s, double torque) {
  const Vector k1 = derivative(s, torque);
  const Vector k2 = derivative(moved(s, kAcrobotSeconds / 2, k1), torque);
  const Vector k3 = derivative(moved(s, kAcrobotSeconds / 2, k2), torque);
  const Vector k4 = derivative(moved(s, kAcrobotSeconds, k3), torque);
  Vector result;
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = s[i] + kAcrobotSeconds / 6.0 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
  return result;
}

double wrapped(double angle) {
  while (angle > kAcrobotPi) angle -= 2 * kAcrobotPi;
  while (angle < -kAcrobotPi) angle += 2 * kAcrobotPi;
  return angle;
}

}  // namespace

EnvSpec Acrobot::spec() {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {6}}};
  spec.action.bins = {3};
  spec.max_episode_steps = 500;
  spec.reports_success = true;
  return spec;
}

void Acrobot::reset(Rng& rng) {
  for (double* value : {&state.theta1, &state.theta2, &state.speed1, &state.speed2})
    *value = static_cast<float>(-0.1 + 0.2 * rng.uniform_double());  // Gymnasium starts from float32 numbers
}

RowStep Acrobot::step(int32_t action, Rng&) {
  const Vector next = integrate({state.theta1, state.theta2, state.speed1, state.speed2}, action - 1.0);
  state = {wrapped(next[0]), wrapped(next[1]), std::clamp(next[2], -kMaxSpeed1, kMaxSpeed1),
           std::clamp(next[3], -kMaxSpeed2, kMaxSpeed2)};
  const bool up = -std::cos(state.theta1) - std::cos(state.theta2 + state.theta1) > 1.0;
  return {.reward = up ? 0.0f : -1.0f, .terminated = up, .success = up};
}

void Acrobot::observe(RowWriter out) const {
  const std::span<float> values = out.array<float>();
  values[0] = static_cast<float>(std::cos(state.theta1));
  values[1] = static_cast<float>(std::sin(state.theta1));
  values[2] = static_cast<float>(std::cos(state.theta2));
  values[3] = static_cast<float>(std::sin(state.theta2));
  values[4] = static_cast<float>(state.speed1);
  values[5] = static_cast<float>(state.speed2);
}

std::string Acrobot::render() const {
  constexpr int kRows = 13, kColumns = 25;
  std::string picture(static_cast<size_t>(kRows * (kColumns + 1)), ' ');
  for (int r = 0; r < kRows; ++r) picture[static_cast<size_t>(r * (kColumns + 1) + kColumns)] = '\n';
  const auto draw = [&](double x, double y, char mark) {  // the arm reaches 2 units in every direction
    const int column = static_cast<int>(std::lround((x / 2 + 1) / 2 * (kColumns - 1)));
    const int row = static_cast<int>(std::lround((1 - y / 2) / 2 * (kRows - 1)));
    picture[static_cast<size_t>(row * (kColumns + 1) + column)] = mark;
  };
  for (int column = 0; column < kColumns; ++column)
    draw((2.0 * column / (kColumns - 1) - 1) * 2, 1.0, '-');  // the goal's height
  const double x1 = std::sin(state.theta1), y1 = -std::cos(state.theta1);
  const double dx = std::sin(state.theta1 + state.theta2), dy = -std::cos(state.theta1 + state.theta2);
  for (int i = 1; i < 6; ++i) draw(x1 * i / 6, y1 * i / 6, '.');
  for (int i = 1; i < 6; ++i) draw(x1 + dx * i / 6, y1 + dy * i / 6, '.');
  draw(0, 0, '+');
  draw(x1, y1, 'o');
  draw(x1 + dx, y1 + dy, 'O');
  return picture;
}

template class Batched<Acrobot>;

}  // namespace troupe
