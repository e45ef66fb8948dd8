#include <cmath>
#include <filesystem>
#include <fstream>

#include "envs/mujoco/library.h"
#include "envs/mujoco/make_mujoco_env.h"
#include "envs/mujoco/mujoco_row.h"
#include "envs/mujoco/task_arithmetic.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/envs/fixtures.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

EnvConfig config_of(const std::string& id, const std::string& params = "{}") {
  EnvConfig config;
  config.id = id;
  config.rows = 2;
  config.params = params;
  return config;
}

std::string refusal_of(const EnvConfig& config) {
  try {
    make_env(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<double> numbers_of(const MujocoRow& row) {
  const std::span<const double> numbers = row.observation();
  return {numbers.begin(), numbers.end()};
}

}  // namespace

TEST_CASE("mujoco: an error inside MuJoCo is an exception, and the data can be used again after a reset") {
  const test::TempFolder folder;
  std::ofstream(folder / "small.xml") << R"(<mujoco><size memory="1500"/><worldbody><geom type="plane" size="9 9 1"/>)"
                                      << R"(<body pos="0 0 .1"><freejoint/><geom type="box" size=".2 .2 .2"/></body>)"
                                      << "</worldbody></mujoco>";
  const std::string id = "mujoco:Hopper-v5";
  const MujocoFunctions& mujoco = mujoco_functions(id);
  char error[500] = "";
  MujocoModel* model = mujoco.load_model((folder / "small.xml").c_str(), error, sizeof error);
  REQUIRE_MESSAGE(model != nullptr, error);
  MujocoData* data = mujoco.make_data(model);
  REQUIRE(data != nullptr);
  for (int again = 0; again < 3; ++again) {
    mujoco.reset(model, data);
    CHECK_THROWS_WITH_AS(mujoco.step(model, data, 1, nullptr), doctest::Contains("MuJoCo: "), std::runtime_error);
  }
  mujoco.delete_data(data);
  mujoco.delete_model(model);
}

TEST_CASE("mujoco: an unknown id is refused with the nearest one") {
  CHECK(refusal_of(config_of("mujoco:Hoper-v5")) ==
        "env.id: \"mujoco:Hoper-v5\" is unknown, did you mean \"mujoco:Hopper-v5\"?");
  CHECK(refusal_of(config_of("mujoco:"))
            .starts_with("env.id: \"mujoco:\" is unknown, expected mujoco: and one of HalfCheetah-v5, Hopper-v5, "));
}

TEST_CASE("mujoco: unknown parameters and values out of range are refused with their path") {
  CHECK(refusal_of(config_of("mujoco:Hopper-v5", R"({"ctrl_cost_wieght": 1})"))
            .starts_with("env.params.ctrl_cost_wieght: unknown key, did you mean env.params.ctrl_cost_weight?"));
  CHECK(refusal_of(config_of("mujoco:Hopper-v5", R"({"frame_skip": 0})")).starts_with("env.params.frame_skip: 0 "));
  CHECK(refusal_of(config_of("mujoco:Hopper-v5", R"({"healthy_z_min": 2, "healthy_z_max": 1})"))
            .starts_with("env.params.healthy_z_max: 1"));
  CHECK(refusal_of(config_of("mujoco:Ant-v5", R"({"main_body": 14})")).starts_with("env.params.main_body: 14 "));
}

TEST_CASE("mujoco: an episode without a terminal state is truncated at the limit") {
  const std::unique_ptr<Env> env = make_env(config_of("mujoco:HalfCheetah-v5", R"({"max_episode_steps": 3})"));
  EnvStep step = EnvStep::allocate(env->spec(), 2);
  env->reset(1, 0, step);
  for (uint64_t t = 0; t < 3; ++t) {
    CHECK(step.truncated == Array(DType::u8, {2}));
    env->step(random_actions(*env, step, t), step);
  }
  CHECK(step.truncated == Array::of<uint8_t>({2}, {1, 1}));
  CHECK(step.terminated == Array(DType::u8, {2}));
}

TEST_CASE("mujoco: a fall terminates the episode, unless terminate_when_unhealthy is false") {
  for (const bool ends : {true, false}) {
    const std::unique_ptr<Env> env = make_env(
        config_of("mujoco:Hopper-v5", std::string(R"({"terminate_when_unhealthy": )") + (ends ? "true}" : "false}")));
    EnvStep step = EnvStep::allocate(env->spec(), 2);
    env->reset(1, 0, step);
    int falls = 0;
    for (uint64_t t = 0; t < 200; ++t) {
      env->step(random_actions(*env, step, t), step);
      falls += step.terminated.view<uint8_t>()[0];
    }
    CHECK((falls > 0) == ends);
  }
}

TEST_CASE("mujoco: a saved row continues with the same bits, after a start and after a step") {
  for (const std::string& id : mujoco_ids()) {
    CAPTURE(id);
    const std::unique_ptr<Env> one = make_env(config_of(id)), other = make_env(config_of(id));
    EnvStep step = EnvStep::allocate(one->spec(), 2);
    one->reset(1, 0, step);
    other->reset(2, 0, step);
    MujocoRow &a = dynamic_cast<Batched<MujocoRow>&>(*one).row(0),
              &b = dynamic_cast<Batched<MujocoRow>&>(*other).row(0);
    const std::vector<float> action(static_cast<size_t>(one->spec().action.dims()), 0.3f);
    for (int t = 0; t < 40; ++t) {
      std::string bytes;
      a.save(bytes);
      b.load(bytes);
      REQUIRE(numbers_of(a) == numbers_of(b));
      const TaskStep of_a = a.advance(action), of_b = b.advance(action);
      REQUIRE(of_a.reward == of_b.reward);
      REQUIRE(numbers_of(a) == numbers_of(b));
    }
  }
}

TEST_CASE("mujoco: a saved row of another model is refused") {
  const std::unique_ptr<Env> hopper = make_env(config_of("mujoco:Hopper-v5")),
                             ant = make_env(config_of("mujoco:Ant-v5"));
  EnvStep step = EnvStep::allocate(hopper->spec(), 2);
  hopper->reset(1, 0, step);
  std::string bytes;
  REQUIRE(hopper->save(bytes));
  CHECK_THROWS_WITH_AS(ant->load(bytes), doctest::Contains("mujoco:Hopper-v5"), std::runtime_error);
}

TEST_CASE(
    "mujoco: the warning of an unstable simulation is logged once, and nothing is written to the working folder") {
  MemoryDisk disk;
  open_log(disk.open_append("log.txt"), {.to_stderr = false});
  const std::unique_ptr<Env> env = make_env(config_of("mujoco:HalfCheetah-v5"));
  EnvStep step = EnvStep::allocate(env->spec(), 2);
  env->reset(1, 0, step);
  for (const int64_t i : {0, 1}) {
    MujocoRow& row = dynamic_cast<Batched<MujocoRow>&>(*env).row(i);
    std::vector<double> qpos(9), qvel(9);
    qpos[5] = NAN;
    row.start(qpos, qvel);
    row.advance(std::vector<float>(6));
  }
  close_log();
  const std::string log = disk.read("log.txt"), warning = "Nan, Inf or huge value in QPOS at DOF 5.";
  CHECK(log.find(" warning mujoco: " + warning) != std::string::npos);
  CHECK(log.rfind(warning) == log.find(warning));
  CHECK(!std::filesystem::exists("MUJOCO_LOG.TXT"));
}

TEST_CASE("task_arithmetic: the sum of squares of 11 numbers adds eight partial sums, then the rest") {
  std::vector<float> values;
  for (int i = 0; i < 11; ++i) values.push_back(0.1f * static_cast<float>(i + 1));
  const auto square = [&](size_t i) { return values[i] * values[i]; };
  const float eight =
      ((square(0) + square(1)) + (square(2) + square(3))) + ((square(4) + square(5)) + (square(6) + square(7)));
  CHECK(sum_of_squares(std::span<const float>(values)) == eight + square(8) + square(9) + square(10));
}
