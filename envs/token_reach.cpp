#include "envs/token_reach.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>

namespace troupe {

namespace {

constexpr float kPi = std::numbers::pi_v<float>;
constexpr float kWall = 1.0f;  // the point is clamped to [-1, 1] in both coordinates
constexpr float kTargetWall = 0.9f;
constexpr float kOrbitSpeed = 0.05f;  // radians per step
constexpr float kShaping = 2.0f, kStepCost = 0.01f, kBonus = 1.0f;

// clang-format off
constexpr std::array<TokenReach::Task, TokenReach::kTasks> kTaskTable{{
    // name      gain   drag  turn      wind   orbit nearest farthest tolerance
    {"near",    0.08f, 0.0f, 0.0f,     0.0f,  0.0f, 0.3f, 0.6f, 0.12f},
    {"far",     0.08f, 0.0f, 0.0f,     0.0f,  0.0f, 0.8f, 1.2f, 0.12f},
    {"precise", 0.08f, 0.0f, 0.0f,     0.0f,  0.0f, 0.4f, 0.8f, 0.07f},
    {"left",    0.08f, 0.0f, kPi / 6,  0.0f,  0.0f, 0.4f, 0.8f, 0.12f},
    {"right",   0.08f, 0.0f, -kPi / 6, 0.0f,  0.0f, 0.4f, 0.8f, 0.12f},
    {"inertia", 0.02f, 0.8f, 0.0f,     0.0f,  0.0f, 0.4f, 0.8f, 0.12f},
    {"wind",    0.08f, 0.0f, 0.0f,     0.02f, 0.0f, 0.4f, 0.8f, 0.12f},
    {"moving",  0.08f, 0.0f, 0.0f,     0.0f,  0.2f, 0.4f, 0.8f, 0.12f},
}};
// clang-format on

float clamped(float value, float bound) { return std::clamp(value, -bound, bound); }

}  // namespace

const std::array<TokenReach::Task, TokenReach::kTasks>& TokenReach::tasks() { return kTaskTable; }

TokenReach::Options TokenReach::Options::read(EnvParams& params) {
  Options options;
  const std::string sampling = params.choice(
      "task_sampling", "failure_weighted", {"failure_weighted", "uniform", "round_robin"},
      "how the task of an episode is chosen: tasks that fail often are drawn more often, all are equally likely, or "
      "they alternate in order");
  options.sampling = sampling == "uniform"       ? Sampling::uniform
                     : sampling == "round_robin" ? Sampling::round_robin
                                                 : Sampling::failure_weighted;
  options.max_episode_steps = static_cast<int32_t>(
      params.integer("max_episode_steps", 64, 1, 1'000'000, "steps after which an episode is truncated"));
  return options;
}

EnvSpec TokenReach::spec(const Options& options) {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {9 + static_cast<int64_t>(kTasks)}}};
  spec.action.kind = ActionKind::multi_discrete;
  spec.action.bins = {kBins, kBins};
  spec.action.chunk = kChunk;
  spec.max_episode_steps = options.max_episode_steps;
  for (const Task& task : kTaskTable) spec.tasks.push_back(task.name);
  spec.reports_success = true;
  return spec;
}

void TokenReach::begin(uint64_t row) {
  state = State{};
  sampler.clear();
  state.next_task = static_cast<int32_t>(row % kTasks);  // with round robin, rows begin with different tasks
}

int32_t TokenReach::draw_task(Rng& rng) {
  if (options_->sampling == Sampling::round_robin) {
    const int32_t task = state.next_task;
    state.next_task = (task + 1) % static_cast<int32_t>(kTasks);
    return task;
  }
  if (options_->sampling == Sampling::uniform) return static_cast<int32_t>(rng.below(kTasks));
  return static_cast<int32_t>(sampler.sample(rng));
}

void TokenReach::reset(Rng& rng) {
  state.task = draw_task(rng);
  const Task& task = kTaskTable[static_cast<size_t>(state.task)];
  state.steps = 0;
  state.speed_x = state.speed_y = 0.0f;
  state.x = rng.uniform(-0.5f, 0.5f);
  state.y = rng.uniform(-0.5f, 0.5f);
  state.phase = rng.uniform(-kPi, kPi);
  const float wall = kTargetWall - task.orbit;
  for (int tries = 0; tries < 100; ++tries) {
    const float distance = rng.uniform(task.nearest, task.farthest), direction = rng.uniform(-kPi, kPi);
    state.center_x = state.x + distance * std::cos(direction) - task.orbit * std::cos(state.phase);
    state.center_y = state.y + distance * std::sin(direction) - task.orbit * std::sin(state.phase);
    if (std::abs(state.center_x) <= wall && std::abs(state.center_y) <= wall) return;
  }
  state.center_x = clamped(state.center_x, wall);
  state.center_y = clamped(state.center_y, wall);
}

std::array<float, 2> TokenReach::target() const {
  const float orbit = kTaskTable[static_cast<size_t>(state.task)].orbit;
  if (orbit == 0.0f) return {state.center_x, state.center_y};
  return {state.center_x + orbit * std::cos(state.phase), state.center_y + orbit * std::sin(state.phase)};
}

float TokenReach::distance() const {
  const auto [x, y] = target();
  return std::hypot(x - state.x, y - state.y);
}

RowStep TokenReach::step(std::span<const int32_t> action, Rng&) {
  const Task& task = kTaskTable[static_cast<size_t>(state.task)];
  const float before = distance();
  const float right = -1.0f + 2.0f * static_cast<float>(action[0]) / (kBins - 1);
  const float up = -1.0f + 2.0f * static_cast<float>(action[1]) / (kBins - 1);
  const float cosine = std::cos(task.turn), sine = std::sin(task.turn);
  state.speed_x = task.drag * state.speed_x + task.gain * (cosine * right - sine * up);
  state.speed_y = task.drag * state.speed_y + task.gain * (sine * right + cosine * up);
  state.x = clamped(state.x + state.speed_x + task.wind, kWall);
  state.y = clamped(state.y + state.speed_y + task.wind, kWall);
  state.phase += kOrbitSpeed;
  ++state.steps;
  const float after = distance();
  const bool reached = after <= task.tolerance;
  if (reached || state.steps >= options_->max_episode_steps) sampler.record(state.task, reached ? 1 : 0);
  return {.reward = kShaping * (before - after) - kStepCost + (reached ? kBonus : 0.0f),
          .terminated = reached,
          .success = reached};
}

void TokenReach::observe(RowWriter out) const {
  const std::span<float> values = out.array<float>();
  const auto [x, y] = target();
  const float time_left = 1.0f - static_cast<float>(state.steps) / static_cast<float>(options_->max_episode_steps);
  const std::array<float, 9> numbers{state.x, state.y,     10 * state.speed_x, 10 * state.speed_y, x,
                                     y,       x - state.x, y - state.y,        time_left};
  std::copy(numbers.begin(), numbers.end(), values.begin());
  std::fill(values.begin() + 9, values.end(), 0.0f);
  values[9 + static_cast<size_t>(state.task)] = 1.0f;
}

void TokenReach::save(std::string& bytes) const {
  bytes.append(reinterpret_cast<const char*>(&state), sizeof(state));
  bytes.append(sampler.save());
}

void TokenReach::load(std::string_view bytes) {
  if (bytes.size() < sizeof(state) || !sampler.restore(bytes.substr(sizeof(state))))
    throw std::runtime_error("the saved state of a TokenReach row has " + std::to_string(bytes.size()) +
                             " bytes and is not from this program");
  std::memcpy(&state, bytes.data(), sizeof(state));
}

std::string TokenReach::render() const {
  constexpr int kColumns = 41, kRows = 21;
  std::string picture;
  for (int row = 0; row < kRows; ++row)
    picture += std::string(kColumns, row == 0 || row == kRows - 1 ? '-' : ' ') + '\n';
  const auto draw = [&](float x, float y, char mark) {
    const int column = static_cast<int>(std::lround((clamped(x, kWall) + 1) / 2 * (kColumns - 1)));
    const int row = static_cast<int>(std::lround((1 - clamped(y, kWall)) / 2 * (kRows - 1)));
    picture[static_cast<size_t>(row * (kColumns + 1) + column)] = mark;
  };
  const auto [x, y] = target();
  draw(x, y, 'X');
  draw(state.x, state.y, 'o');
  return picture + "task " + kTaskTable[static_cast<size_t>(state.task)].name + ", step " +
         std::to_string(state.steps) + '\n';
}

template class Batched<TokenReach>;

}  // namespace troupe
