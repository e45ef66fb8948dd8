#include "envs/mountain_car.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace troupe {

namespace {

template <class T>
constexpr T kMinPosition = T(-1.2);
template <class T>
constexpr T kMaxPosition = T(0.6);
template <class T>
constexpr T kMaxSpeed = T(0.07);

std::string render_valley(double position, double goal) {
  constexpr int kColumns = 61, kRows = 9;
  std::string picture(static_cast<size_t>(kRows * (kColumns + 1)), ' ');
  const auto column_of = [](double x) {
    return static_cast<int>(
        std::lround((x - kMinPosition<double>) / (kMaxPosition<double> - kMinPosition<double>)*(kColumns - 1)));
  };
  const auto draw = [&](int column, char mark) {
    const double x = kMinPosition<double> + (kMaxPosition<double> - kMinPosition<double>)*column / (kColumns - 1);
    const int row = static_cast<int>(std::lround((1 - std::sin(3 * x)) / 2 * (kRows - 1)));
    picture[static_cast<size_t>(row * (kColumns + 1) + column)] = mark;
  };
  for (int r = 0; r < kRows; ++r) picture[static_cast<size_t>(r * (kColumns + 1) + kColumns)] = '\n';
  for (int column = 0; column < kColumns; ++column) draw(column, '.');
  draw(column_of(goal), 'F');
  draw(std::clamp(column_of(position), 0, kColumns - 1), '#');
  return picture;
}

}  // namespace

EnvSpec MountainCar::spec() {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {2}}};
  spec.action.bins = {3};
  spec.max_episode_steps = 200;
  spec.reports_success = true;
  return spec;
}

void MountainCar::reset(Rng& rng) { state = {-0.6 + 0.2 * rng.uniform_double(), 0.0}; }

RowStep MountainCar::step(int32_t action, Rng&) {
  auto& [position, velocity] = state;
  velocity += (action - 1) * 0.001 + std::cos(3 * position) * -0.0025;
  velocity = std::clamp(velocity, -kMaxSpeed<double>, kMaxSpeed<double>);
  position = std::clamp(position + velocity, kMinPosition<double>, kMaxPosition<double>);
  if (position == kMinPosition<double> && velocity < 0) velocity = 0;
  const bool out = position >= 0.5 && velocity >= 0;
  return {.reward = -1.0f, .terminated = out, .success = out};
}

void MountainCar::observe(RowWriter out) const {
  const std::span<float> values = out.array<float>();
  values[0] = static_cast<float>(state.position);
  values[1] = static_cast<float>(state.velocity);
}

std::string MountainCar::render() const { return render_valley(state.position, 0.5); }

EnvSpec MountainCarContinuous::spec() {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {2}}};
  spec.action.kind = ActionKind::continuous;
  spec.action.low = {-1.0f};
  spec.action.high = {1.0f};
  spec.max_episode_steps = 999;
  spec.reports_success = true;
  return spec;
}

void MountainCarContinuous::reset(Rng& rng) { state = {static_cast<float>(-0.6 + 0.2 * rng.uniform_double()), 0.0f}; }

RowStep MountainCarContinuous::step(std::span<const float> action, Rng&) {
  auto& [position, velocity] = state;
  const float slope = static_cast<float>(0.0025 * std::cos(static_cast<double>(3 * position)));
  velocity = std::clamp(velocity + (action[0] * 0.0015f - slope), -kMaxSpeed<float>, kMaxSpeed<float>);
  position = std::clamp(position + velocity, kMinPosition<float>, kMaxPosition<float>);
  if (position == kMinPosition<float> && velocity < 0) velocity = 0;
  const bool out = position >= 0.45f && velocity >= 0;
  const double effort = static_cast<double>(action[0]) * action[0] * 0.1;
  return {.reward = static_cast<float>((out ? 100.0 : 0.0) - effort), .terminated = out, .success = out};
}

void MountainCarContinuous::observe(RowWriter out) const {
  const std::span<float> values = out.array<float>();
  values[0] = state.position;
  values[1] = state.velocity;
}

std::string MountainCarContinuous::render() const { return render_valley(state.position, 0.45); }

template class Batched<MountainCar>;
template class Batched<MountainCarContinuous>;

}  // namespace troupe
