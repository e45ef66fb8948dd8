// Environments in Python: spaces, episodes, seeds. Failures are in python_failures_test.cpp.

#include "envs/bridge/python_env.h"

#include <nlohmann/json.hpp>

#include "runtime/base/child_memory.h"

#include "tests/envs/bridge/python_fixtures.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("python_env: the spec follows from the spaces") {
  if (!can_use("numpy")) return;
  const auto env = make_env(python_config("Spaces", 2));
  const EnvSpec& spec = env->spec();
  struct Expected {
    const char* name;
    DType dtype;
    Shape shape;
  };
  const std::vector<Expected> expected{{"image", DType::u8, {2, 2}},     {"large", DType::i64, {1}},
                                       {"choice", DType::f32, {3}},      {"choices", DType::f32, {5}},
                                       {"flags", DType::f32, {2}},       {"both/0", DType::f32, {1}},
                                       {"both/1/inner", DType::i32, {1}}};
  REQUIRE(spec.observations.size() == expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    CHECK(spec.observations[k].name == expected[k].name);
    CHECK(spec.observations[k].dtype == expected[k].dtype);
    CHECK(spec.observations[k].shape == expected[k].shape);
  }
  CHECK(spec.action.kind == ActionKind::discrete);
  CHECK(spec.action.bins == std::vector<int32_t>{3});
  CHECK(spec.action.masked);
  CHECK(spec.reports_success);
  CHECK(spec.blocks);
}

TEST_CASE("python_env: observations of every kind arrive") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Spaces", 2));
  const Arrays& seen = run.step.observations;
  for (int64_t i = 0; i < 2; ++i) {
    CHECK(seen.at("image").at(i) == Array::of<uint8_t>({2, 2}, {250, 251, 252, 253}));
    CHECK(seen.at("large").at(i) == Array::of<int64_t>({1}, {int64_t{1} << 40}));
    CHECK(seen.at("choice").at(i) == Array::of<float>({3}, {0, 1, 0}));
    CHECK(seen.at("choices").at(i) == Array::of<float>({5}, {0, 1, 0, 0, 1}));
    CHECK(seen.at("flags").at(i) == Array::of<float>({2}, {0, 1}));
    CHECK(seen.at("both/0").at(i) == Array::of<float>({1}, {0.25f}));
    CHECK(seen.at("both/1/inner").at(i) == Array::of<int32_t>({1}, {7}));
    CHECK(run.step.action_mask.at(i) == Array::of<uint8_t>({3}, {0, 1, 1}));
  }
}

TEST_CASE("python_env: spaces without dimensions and with other first numbers arrive") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Odd", 1));
  const EnvSpec& spec = run.env->spec();
  REQUIRE(spec.observations.size() == 3);
  CHECK(spec.observations[0].name == "0/scalar");
  CHECK(spec.observations[1].name == "0/deep/0");
  CHECK(spec.observations[2].name == "1");
  CHECK(spec.observations[2].dtype == DType::u8);
  run.env->step(Array::of<float>({1, 1, 1}, {0.5f}), run.step);
  CHECK(run.step.errors.empty());
  CHECK(run.observed(0, 0, 0) == 0.5f);
  CHECK(run.step.observations.at("0/deep/0").at(0) == Array::of<float>({2}, {0, 1}));
  CHECK(run.step.observations.at("1").at(0) == Array::of<uint8_t>({1}, {7}));

  Stepping grid(python_config("Grid", 1));
  CHECK(grid.env->spec().action.bins == std::vector<int32_t>{2, 3, 2, 2});
  grid.env->step(Array::of<int32_t>({1, 1, 4}, {1, 2, 0, 1}), grid.step);
  CHECK(grid.step.observations[0].second.at(0) == Array::of<float>({9}, {0, 1, 0, 0, 1, 1, 0, 0, 1}));
}

TEST_CASE("python_env: a mask that allows no action fails its row") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("NothingAllowed", 1));
  run.act(0);
  run.act(0);
  CHECK(run.step.errors == std::vector<std::string>{"row 0: the action mask allows no action"});
  CHECK(run.failed() == Failed::now);
  CHECK(run.observed(0, 1) == 0);
}

TEST_CASE("python_env: a number that is neither 0 nor 1 in a mask fails its row, and is named") {
  if (!can_use("numpy")) return;
  for (const std::string entry : {"nan", "-inf", "0.5"}) {
    Stepping run(python_config("MaskOf", 1, R"({"entry": ")" + entry + "\"}"));
    run.act(0);
    run.act(0);
    REQUIRE(run.step.errors.size() == 1);
    CHECK(run.step.errors[0].starts_with("row 0: ValueError: entry 1 of action_mask is " + entry +
                                         ", expected 0 (forbidden) or 1 (allowed)"));
    CHECK(run.step.action_mask == Array::of<uint8_t>({1, 2}, {1, 0}));  // of the episode that has begun
  }
}

TEST_CASE("python_env: a masked action and one out of range fail their row only, and the mask follows the state") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Spaces", 1));
  run.act(2);
  CHECK(run.failed() == Failed::no);
  CHECK(run.step.action_mask.at(0) == Array::of<uint8_t>({3}, {1, 1, 0}));
  run.act(2);
  CHECK(run.failed() == Failed::now);
  CHECK(run.step.errors == std::vector<std::string>{"row 0: choice 2 of action component 0 is masked"});
  run.act(7);
  CHECK(run.step.errors ==
        std::vector<std::string>{"row 0: choice 7 of action component 0 is out of range, expected 0 to 2"});
}

TEST_CASE("python_env: an episode ends with its last observation, and the next begins in the same step") {
  if (!can_use("numpy")) return;
  for (const bool truncates : {false, true}) {
    Stepping run(python_config("Walk", 3, truncates ? R"({"length": 4, "truncates": true})" : R"({"length": 4})"));
    for (int t = 1; t <= 3; ++t) {
      run.act(1);
      CHECK(run.observed(0, 1) == t);
      CHECK(!run.terminated());
      CHECK(!run.truncated());
    }
    run.act(1);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(run.terminated(i) == !truncates);
      CHECK(run.truncated(i) == truncates);
      CHECK(run.last_observed(i, 1) == 4);
      CHECK(run.last_observed(i, 0) == run.reward(i));
      CHECK(run.observed(i, 1) == 0);
      CHECK(run.observed(i, 2) == 2);  // the second episode
      CHECK(run.success(i) == (run.reward(i) > 0));
      CHECK(run.executed(i) == 1);
    }
  }
}

TEST_CASE("python_env: a chunk sums the rewards and stops at the end of an episode") {
  if (!can_use("numpy")) return;
  EnvConfig config = python_config("Walk", 2, R"({"length": 5})");
  Stepping single(config);
  config.chunk = 3;
  Stepping chunks(config);
  for (const int32_t steps : {3, 2}) {
    float sum = 0;
    for (int32_t k = 0; k < steps; ++k) {
      single.act(1);
      sum += single.reward(1);
    }
    chunks.act(1);
    CHECK(chunks.reward(1) == doctest::Approx(sum));
    CHECK(chunks.executed(1) == steps);
    CHECK(chunks.step.observations == single.step.observations);
    CHECK(chunks.terminated(1) == single.terminated(1));
  }
  CHECK(chunks.terminated(1));
}

TEST_CASE("python_env: continuous actions arrive clipped, in the shape of their space") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Continuous", 2, R"({"shape": [2, 2]})"));
  CHECK(run.env->spec().action.low == std::vector<float>(4, -1.0f));
  CHECK(run.env->spec().action.high == std::vector<float>(4, 2.0f));
  const Array actions = Array::of<float>({2, 1, 4}, {-5, -0.5, 0.5, 5, 0, 0.25, 2, -1});
  run.env->step(actions, run.step);
  const std::vector<float> expected{-1, -0.5, 0.5, 2, 0, 0.25, 2, -1};
  for (size_t k = 0; k < 8; ++k) CHECK(run.observed(k / 4, k % 4) == expected[k]);
  CHECK(run.reward(1) == 1.25f);
  Array bad = actions.clone();
  bad.mutable_view<float>()[5] = NAN;
  run.env->step(bad, run.step);
  CHECK(run.failed(0) == Failed::no);
  CHECK(run.failed(1) == Failed::now);
  CHECK(run.step.errors == std::vector<std::string>{"row 1: action 1 is nan"});
}

TEST_CASE("python_env: several choices arrive as one array") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Choices", 2));
  CHECK(run.env->spec().action.bins == std::vector<int32_t>{3, 4});
  run.env->step(Array::of<int32_t>({2, 1, 2}, {2, 3, 1, 0}), run.step);
  CHECK(run.reward(0) == 23);
  CHECK(run.reward(1) == 10);
}

TEST_CASE("python_env: results do not depend on the number of rows or processes") {
  if (!can_use("numpy")) return;
  for (const char* name : {"Walk", "Spaces", "Continuous"}) {
    CAPTURE(name);
    Stepping all(python_config(name, 6), 9);
    Stepping split(python_config(name, 6, "{}", 4), 9);
    Stepping part(python_config(name, 2), 9, 3);
    CHECK(dynamic_cast<PythonEnv&>(*split.env).process_ids().size() == 4);
    for (int t = 0; t < 40; ++t) {
      REQUIRE(all_bytes(all.step) == all_bytes(split.step));
      REQUIRE(row_bytes(all.step, 3) == row_bytes(part.step, 0));
      REQUIRE(row_bytes(all.step, 4) == row_bytes(part.step, 1));
      for (Stepping* run : {&all, &split, &part}) run->advance();
    }
    CHECK(row_bytes(all.step, 0) != row_bytes(all.step, 1));
  }
}

TEST_CASE("python_env: a reset with the same seed repeats the run, in the same processes") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Walk", 2, R"({"dims": 2})"), 4);
  const std::vector<pid_t> before = dynamic_cast<PythonEnv&>(*run.env).process_ids();
  const std::string first = all_bytes(run.step);
  for (int t = 0; t < 7; ++t) run.act(0);
  const std::string later = all_bytes(run.step);
  run.env->reset(4, 0, run.step);
  CHECK(all_bytes(run.step) == first);
  for (int t = 0; t < 7; ++t) run.act(0);
  CHECK(all_bytes(run.step) == later);
  CHECK(dynamic_cast<PythonEnv&>(*run.env).process_ids() == before);
}

TEST_CASE("python_env: an inactive row shows zeros and starts a new episode when it is active again") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Walk", 2));
  run.act(0);
  run.env->set_active(1, false);
  run.act(0);
  CHECK(run.observed(0, 1) == 2);
  CHECK(run.failed(1) == Failed::idle);
  CHECK(run.observed(1, 2) == 0);
  run.env->set_active(1, true);
  run.act(0);
  CHECK(run.failed(1) == Failed::idle);
  CHECK(run.observed(1, 1) == 0);
  CHECK(run.observed(1, 2) == 2);  // its second reset
  run.act(0);
  CHECK(run.failed(1) == Failed::no);
  CHECK(run.observed(1, 1) == 1);
}

TEST_CASE("python_env: observe repeats the present observations") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Walk", 2));
  run.act(1);
  const Arrays seen = run.step.observations;
  EnvStep again = EnvStep::allocate(run.env->spec(), 2);
  run.env->observe(again);
  CHECK(again.observations == seen);
  CHECK(again.rewards.view<float>()[0] == 0);
}

TEST_CASE("python_env: a row is drawn by an environment that draws text") {
  if (!can_use("numpy")) return;
  Stepping drawn(python_config("Drawn", 2)), plain(python_config("Walk", 1));
  drawn.act(1);
  plain.act(1);
  CHECK(drawn.env->render(1).ends_with(", step 1\n"));
  CHECK(drawn.env->render(1).starts_with("at "));
  CHECK(plain.env->render(0) == "py:tests/envs/bridge/environments.py:Walk, step 1\n");
  CHECK_THROWS_AS(plain.env->render(1), InvariantError);
}

TEST_CASE("python_env: the memory of its processes, and of those that they start, is known while they run") {
  if (!can_use("numpy")) return;
  CHECK(resident_bytes(ChildKind::environment) == 0);
  for (const char* params : {"{}", R"({"child": true})"}) {
    Stepping run(python_config("Hoards", 2, params, 2));
    const uint64_t before = resident_bytes(ChildKind::environment);
    CHECK(before > 0);
    run.act(1);
    CHECK(run.step.errors.empty());
    CHECK(resident_bytes(ChildKind::environment) >= before + 2 * (uint64_t{64} << 20));
  }
  CHECK(resident_bytes(ChildKind::environment) == 0);
  CHECK(resident_bytes(ChildKind::verifier) == 0);
}

TEST_CASE("python_env: the state cannot be saved") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Walk", 1));
  std::string bytes;
  CHECK(!run.env->save(bytes));
  CHECK(!run.env->load(bytes));
}

TEST_CASE("python_env: evaluation.env_params replace keyword arguments") {
  if (!can_use("numpy")) return;
  const EnvConfig config = python_config("Walk", 4, R"({"length": 9})");
  const auto env = make_evaluation_env(config, R"({"length": 1})", 2);
  EnvStep step = EnvStep::allocate(env->spec(), 2);
  env->reset(1, 0, step);
  env->step(Array(DType::i32, {2, 1, 1}), step);
  CHECK(step.terminated.view<uint8_t>()[1] == 1);
  CHECK_THROWS_WITH_AS(make_evaluation_env(config, R"({"dims": 2})", 2), doctest::Contains("evaluation.env_params"),
                       ConfigError);
}

namespace {

// Compares an environment with a loop in Python around the same one, whose observations a script writes to stdout.
void compare_with_loop(const std::string& id) {
  constexpr int64_t kRows = 2, kSteps = 1000;
  Stepping run(python_config("gym:" + id, kRows), 11, 5);
  std::string actions;
  std::vector<std::string> lines;
  const auto note = [&](int64_t i) {
    std::string line;
    char hex[3];
    const Array& seen = run.step.observations[0].second;
    for (size_t k = 0; k < seen.row_bytes(); ++k) {
      snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(seen.at(i).data()[k]));
      line += hex;
    }
    lines.push_back(line);
  };
  const std::string script = "tests/envs/bridge/gymnasium_loop.py";
  for (int64_t i = 0; i < kRows; ++i) {
    const uint64_t seed = derive_key(11, "env", 5 + static_cast<uint64_t>(i)) & 0x7fffffff;
    run.env->reset(11, 5, run.step);
    lines.clear();
    note(i);
    for (int64_t t = 0; t < kSteps; ++t) {
      // The loop in the script computes the same actions.
      const auto draw = static_cast<int32_t>((t * t + t / 7) % 2);
      Array given(run.env->spec().action.dtype(), run.env->spec().action.shape().prepended(kRows));
      for (int64_t r = 0; r < kRows; ++r) {
        if (given.dtype() == DType::i32) given.mutable_view<int32_t>()[static_cast<size_t>(r)] = draw;
        if (given.dtype() == DType::f32)
          given.mutable_view<float>()[static_cast<size_t>(r)] = static_cast<float>(draw) * 2.5f - 1.25f;
      }
      run.env->step(given, run.step);
      note(i);
    }
    const ProgramResult loop = run_program(test_python() + ' ' + script + ' ' + id + ' ' + std::to_string(seed) + ' ' +
                                           std::to_string(kSteps));
    REQUIRE(loop.exit_code == 0);
    std::string all;
    for (const std::string& line : lines) all += line + '\n';
    CHECK(loop.output == all);
  }
}

}  // namespace

TEST_CASE("python_env: CartPole-v1 gives the same bytes as a loop in Python") {
  if (can_use("gymnasium")) compare_with_loop("CartPole-v1");
}

TEST_CASE("python_env: Pendulum-v1 gives the same bytes as a loop in Python") {
  if (can_use("gymnasium")) compare_with_loop("Pendulum-v1");
}

TEST_CASE("python_env: the step limit of a Gymnasium environment is known") {
  if (!can_use("gymnasium")) return;
  CHECK(make_env(python_config("gym:CartPole-v1", 1))->spec().max_episode_steps == 500);
  CHECK(make_env(python_config("gym:CartPole-v1", 1))->spec().observations[0].name == "observation");
}

TEST_CASE("python_env: an environment may start processes with multiprocessing, which import the server again") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("with_a_spawned_process", 1));
  run.act(1);
  CHECK(run.step.errors.empty());
}

TEST_CASE("python_env: an episode that begins singly is the first one of the row of its number, and none follows") {
  if (!can_use("numpy")) return;
  for (const int64_t processes : {1, 2})
    for (const char* name : {"Walk", "Grid", "Choices"}) {
      CAPTURE(name);
      const EnvConfig config = python_config(name, 3, "{}", processes);
      const auto env = make_env(config);
      REQUIRE(env->play_singly(4));
      CHECK(difference_of_singles(*env, *make_env(config), 4, 5, 200) == "");
    }
  const auto env = make_env(python_config("Walk", 2));
  EnvStep step = EnvStep::allocate(env->spec(), 2);
  REQUIRE(env->play_singly(1));
  for (int episode = 1; episode <= 3; ++episode) {
    env->begin_episode(0, 7);
    for (int t = 0; t < 8; ++t) {
      env->step(Array(DType::i32, {2, 1, 1}), step);
      CHECK(step.observations[0].second.view<float>()[2] == (t < 5 ? episode : 0));  // its resets
      CHECK(step.failed == Array::of<uint8_t>({2}, {uint8_t(t == 0 || t > 5 ? 2 : 0), 2}));
    }
  }
}
