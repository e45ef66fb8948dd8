#include "envs/cart_pole.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace troupe {

namespace {

constexpr double kGravity = 9.8, kPoleMass = 0.1, kTotalMass = 1.1, kHalfLength = 0.5, kForce = 10.0, kSeconds = 0.02;
constexpr double kPoleMassLength = kPoleMass * kHalfLength;
constexpr double kMaxAngle = 12 * 2 * std::numbers::pi / 360, kCartPoleMaxPosition = 2.4;

struct SineCosine {
  double sine, cosine;
};

// Taylor series that is correct to the last bits for the angles of a running episode, and several times faster than the
// library functions, which accept any angle.
SineCosine sine_cosine(double x) {
  if (std::abs(x) > 0.25) [[unlikely]]
    return {std::sin(x), std::cos(x)};
  const double y = x * x;
  const double sine = y * (-1.0 / 6 + y * (1.0 / 120 + y * (-1.0 / 5040 + y * (1.0 / 362880 + y * (-1.0 / 39916800)))));
  const double cosine =
      y * (1.0 / 24 + y * (-1.0 / 720 + y * (1.0 / 40320 + y * (-1.0 / 3628800 + y * (1.0 / 479001600)))));
  return {x + x * sine, 1 - (0.5 * y - y * cosine)};
}

}  // namespace

CartPole::Options CartPole::Options::read(EnvParams& params) {
  return {.velocities = params.boolean("velocities", true,
                                       "the observation contains velocities; without them the policy needs memory")};
}

EnvSpec CartPole::spec(const Options& options) {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {options.velocities ? 4 : 2}}};
  spec.action.bins = {2};
  spec.max_episode_steps = 500;
  return spec;
}

void CartPole::reset(Rng& rng) {
  for (double* value : {&state.x, &state.x_dot, &state.theta, &state.theta_dot})
    *value = -0.05 + 0.1 * rng.uniform_double();
}

RowStep CartPole::step(int32_t action, Rng&) {
  auto& [x, x_dot, theta, theta_dot] = state;
  const double force = kForce * (2 * action - 1);  // without a branch, which would be unpredictable
  const auto [sine, cosine] = sine_cosine(theta);
  const double push = (force + kPoleMassLength * (theta_dot * theta_dot) * sine) / kTotalMass;
  const double theta_acc =
      (kGravity * sine - cosine * push) / (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
  const double x_acc = push - kPoleMassLength * theta_acc * cosine / kTotalMass;
  x += kSeconds * x_dot;
  x_dot += kSeconds * x_acc;
  theta += kSeconds * theta_dot;
  theta_dot += kSeconds * theta_acc;
  return {.reward = 1.0f, .terminated = std::abs(x) > kCartPoleMaxPosition || std::abs(theta) > kMaxAngle};
}

void CartPole::observe(RowWriter out) const {
  const std::span<float> values = out.array<float>();
  values[0] = static_cast<float>(state.x);
  if (!options_->velocities) {
    values[1] = static_cast<float>(state.theta);
    return;
  }
  values[1] = static_cast<float>(state.x_dot);
  values[2] = static_cast<float>(state.theta);
  values[3] = static_cast<float>(state.theta_dot);
}

std::string CartPole::render() const {
  constexpr int kWidth = 49;
  const int column =
      std::clamp(static_cast<int>(std::lround((state.x / kCartPoleMaxPosition + 1) / 2 * (kWidth - 1))), 0, kWidth - 1);
  const char pole = state.theta > 0.03 ? '/' : state.theta < -0.03 ? '\\' : '|';
  const int lean = state.theta > 0.03 ? 1 : state.theta < -0.03 ? -1 : 0;
  std::string top(kWidth, ' '), cart(kWidth, '_');
  top[static_cast<size_t>(std::clamp(column + lean, 0, kWidth - 1))] = pole;
  cart[static_cast<size_t>(column)] = '#';
  char numbers[80];
  std::snprintf(numbers, sizeof(numbers), "x %+.2f  angle %+.1f deg\n", state.x, state.theta * 180 / std::numbers::pi);
  return top + '\n' + cart + '\n' + numbers;
}

template class Batched<CartPole>;

}  // namespace troupe
