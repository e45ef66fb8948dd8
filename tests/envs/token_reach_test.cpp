#include "envs/token_reach.h"

#include <cmath>

#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

EnvConfig config_of(const std::string& params, int64_t rows, int64_t chunk = 0) {
  EnvConfig config;
  config.id = "TokenReach";
  config.params = params;
  config.rows = rows;
  config.chunk = chunk;
  return config;
}

int32_t token_of(float value) {
  return static_cast<int32_t>(std::lround((std::clamp(value, -1.0f, 1.0f) + 1) / 2 * 255));
}

// Steers straight to the target, using the task's table entry: a proportional controller, damped if the point has
// momentum.
std::array<int32_t, 2> steer(std::span<const float> seen, int32_t number) {
  const TokenReach::Task& task = TokenReach::tasks()[static_cast<size_t>(number)];
  const float stop = task.drag / (1 - task.drag);  // how far the point still moves, in units of its speed
  const float want_x = (seen[6] - stop * seen[2] / 10 - task.wind) / task.gain;
  const float want_y = (seen[7] - stop * seen[3] / 10 - task.wind) / task.gain;
  const float scale = 1.0f / std::max(1.0f, std::hypot(want_x, want_y));
  const float cosine = std::cos(-task.turn), sine = std::sin(-task.turn);
  return {token_of(scale * (cosine * want_x - sine * want_y)), token_of(scale * (sine * want_x + cosine * want_y))};
}

struct Tally {
  std::array<int, TokenReach::kTasks> episodes{}, successes{};
};

// Plays `decisions` steps of every row with the scripted controller, or with the middle token, which does not move.
Tally play(const EnvConfig& config, int decisions, bool scripted) {
  const auto env = make_env(config);
  EnvStep step = EnvStep::allocate(env->spec(), config.rows);
  env->reset(1, 0, step);
  Tally tally;
  for (int t = 0; t < decisions; ++t) {
    Array actions(DType::i32, env->spec().action.shape().prepended(config.rows));
    const Array tasks = step.task.clone();
    for (int64_t i = 0; i < config.rows; ++i) {
      const int32_t task = tasks.view<int32_t>()[static_cast<size_t>(i)];
      const std::array<int32_t, 2> tokens =
          scripted ? steer(step.observations[0].second.at(i).view<float>(), task) : std::array<int32_t, 2>{127, 127};
      for (int64_t k = 0; k < env->spec().action.chunk; ++k)
        std::copy(tokens.begin(), tokens.end(), actions.at(i).at(k).mutable_view<int32_t>().begin());
    }
    env->step(actions, step);
    for (size_t i = 0; i < static_cast<size_t>(config.rows); ++i) {
      if (!step.terminated.view<uint8_t>()[i] && !step.truncated.view<uint8_t>()[i]) continue;
      const size_t task = static_cast<size_t>(tasks.view<int32_t>()[i]);
      ++tally.episodes[task];
      tally.successes[task] += step.success.view<uint8_t>()[i];
    }
  }
  return tally;
}

}  // namespace

TEST_CASE("token_reach: a scripted controller succeeds in every task") {
  const Tally tally = play(config_of(R"({"task_sampling": "uniform"})", 64, 1), 2000, true);
  for (size_t task = 0; task < TokenReach::kTasks; ++task) {
    CAPTURE(TokenReach::tasks()[task].name);
    REQUIRE(tally.episodes[task] > 100);
    CHECK(tally.successes[task] >= 0.99 * tally.episodes[task]);
  }
}

TEST_CASE("token_reach: not moving nearly always fails") {
  const Tally tally = play(config_of(R"({"task_sampling": "uniform"})", 64), 200, false);
  int episodes = 0, successes = 0;
  for (size_t task = 0; task < TokenReach::kTasks; ++task) {
    episodes += tally.episodes[task];
    successes += tally.successes[task];
  }
  REQUIRE(episodes > 500);
  CHECK(successes < 0.2 * episodes);
}

TEST_CASE("token_reach: token k means the number -1 + 2k/255") {
  EnvParams params;
  const TokenReach::Options options = TokenReach::Options::read(params);
  TokenReach row(options);
  Rng rng(1);
  row.begin(0);
  row.reset(rng);
  row.state.task = 0;
  for (const auto& [token, move] : {std::pair{0, -0.08f}, {255, 0.08f}, {51, -0.048f}}) {
    row.state.x = row.state.y = 0.0f;
    row.step(std::array<int32_t, 2>{token, 255 - token}, rng);
    CHECK(row.state.x == doctest::Approx(move));
    CHECK(row.state.y == doctest::Approx(-move));
  }
}

TEST_CASE("token_reach: round robin goes through the tasks in order, and rows start with different ones") {
  const auto env = make_env(config_of(R"({"task_sampling": "round_robin", "max_episode_steps": 1})", 10));
  EnvStep step = EnvStep::allocate(env->spec(), 10);
  env->reset(1, 0, step);
  for (int32_t t = 0; t < 20; ++t) {
    for (int32_t i = 0; i < 10; ++i) CHECK(step.task.view<int32_t>()[static_cast<size_t>(i)] == (i + t) % 8);
    env->step(Array(DType::i32, {10, 8, 2}), step);
  }
}

TEST_CASE("token_reach: tasks are drawn by their failures among the last 100 episodes plus one") {
  EnvParams params;
  const TokenReach::Options options = TokenReach::Options::read(params);
  TokenReach row(options);
  Rng rng(1);
  row.begin(0);
  for (int n = 0; n < 92; ++n)
    row.sampler.record(3, 0);  // weights: 93 of 100 for task 3, one each for the seven others
  int threes = 0;
  for (int n = 0; n < 20000; ++n) {
    row.reset(rng);
    threes += row.state.task == 3;
  }
  CHECK(threes / 20000.0 == doctest::Approx(0.93).epsilon(0.01));
}

TEST_CASE("token_reach: only the last 100 outcomes of a task count") {
  EnvParams params(R"({"max_episode_steps": 1})");
  const TokenReach::Options options = TokenReach::Options::read(params);
  TokenReach row(options);
  Rng rng(1);
  row.begin(0);
  const auto play_one = [&](bool succeed) {
    row.reset(rng);
    row.state.task = 2;
    row.state.center_x = row.state.x + (succeed ? 0.0f : 1.0f);
    row.state.center_y = row.state.y;
    row.step(std::array<int32_t, 2>{127, 127}, rng);
  };
  const auto failures = [&] {  // failures of task 2; the other seven have none
    const double weight = row.sampler.weights()[2];
    return 7 * weight / (1 - weight) - 1;
  };
  for (int n = 0; n < 250; ++n) play_one(false);
  CHECK(failures() == doctest::Approx(100));
  for (int n = 0; n < 30; ++n) play_one(true);
  CHECK(failures() == doctest::Approx(70));
  for (int n = 0; n < 300; ++n) play_one(true);
  CHECK(failures() == doctest::Approx(0));
}

TEST_CASE("token_reach: a restored environment draws the same tasks as the saved one") {
  const EnvConfig config = config_of(R"({"max_episode_steps": 3})", 4);
  const auto saved = make_env(config), loaded = make_env(config);
  EnvStep step = EnvStep::allocate(saved->spec(), 4), other = EnvStep::allocate(saved->spec(), 4);
  saved->reset(5, 0, step);
  loaded->reset(6, 0, other);
  const Array actions(DType::i32, {4, 8, 2});
  for (int t = 0; t < 50; ++t) saved->step(actions, step);
  std::string bytes;
  REQUIRE(saved->save(bytes));
  REQUIRE(loaded->load(bytes));
  for (int t = 0; t < 50; ++t) {
    saved->step(actions, step);
    loaded->step(actions, other);
    CHECK(step.task == other.task);
  }
  std::string cut = bytes;
  cut.pop_back();
  CHECK_THROWS_AS(loaded->load(cut), std::runtime_error);
}
