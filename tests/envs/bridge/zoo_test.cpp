#include "envs/bridge/python_env.h"

#include "tests/envs/bridge/python_fixtures.h"
#include "tests/envs/bridge/shared_row_configs.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("zoo: the agents of a world are rows, and those that leave early are idle until all have left") {
  if (!can_use("numpy")) return;
  Stepping run(zoo_config(6));
  CHECK(run.env->spec().reports_success);
  for (int episode = 1; episode <= 2; ++episode) {
    for (size_t i = 0; i < 6; ++i) CHECK(run.observed(i, 2) == episode);
    for (int t = 1; t <= 4; ++t) {
      run.act(1);
      for (size_t i = 0; i < 6; ++i) {
        const int length = 2 + static_cast<int>(i % 3);
        CAPTURE(i);
        CAPTURE(t);
        CHECK(run.failed(i) == (t > length ? Failed::idle : Failed::no));
        CHECK(run.executed(i) == (t > length ? 0 : 1));
        CHECK(run.terminated(i) == (t == length && i % 3 != 2));
        CHECK(run.truncated(i) == (t == length && i % 3 == 2));
        if (t == length) CHECK(run.last_observed(i, 1) == t);
        if (t == length) CHECK(run.success(i) == (i % 3 == 1));
      }
    }
  }
  CHECK(run.step.errors.empty());
}

TEST_CASE("zoo: results depend neither on the number of rows nor on that of processes") {
  if (!can_use("numpy")) return;
  Stepping all(zoo_config(9)), split(zoo_config(9, "{}", 2)), last(zoo_config(3), 1, 6);
  for (int t = 0; t < 9; ++t) {
    for (Stepping* each : {&all, &split, &last}) each->act(t % 2);
    REQUIRE(all_bytes(all.step) == all_bytes(split.step));
    for (int64_t i = 0; i < 3; ++i) REQUIRE(row_bytes(all.step, 6 + i) == row_bytes(last.step, i));
  }
}

TEST_CASE("zoo: the episodes of a world begin singly; those of a vector environment cannot") {
  if (!can_use("numpy")) return;
  for (const int64_t processes : {1, 2}) {
    const auto env = make_env(zoo_config(6, "{}", processes));
    REQUIRE(env->play_singly(4));
    CHECK(difference_of_singles(*env, *make_env(zoo_config(6, "{}", processes)), 4, 9, 20) == "");
    EnvStep step = EnvStep::allocate(env->spec(), 6);
    for (int64_t i = 3; i < 6; ++i) env->begin_episode(i, static_cast<uint64_t>(i));
    env->step(Array(DType::i32, {6, 1, 1}), step);
    CHECK(step.observations[0].second.view<float>()[3 * 3 + 2] == 2);  // resets of the second world
    CHECK(step.observations[0].second.view<float>()[2] == 0);
  }
  for (const char* mode : {"NextStep", "SameStep", "Disabled"})
    CHECK(!make_env(vector_config(mode, 3))->play_singly(4));
}

TEST_CASE("zoo: an exception or a crash fails the rows of its world, which begins again") {
  if (!can_use("numpy")) return;
  for (const char* what : {"raise", "kill"}) {
    CAPTURE(what);
    Stepping run(zoo_config(3, R"({"length": 4, "what": ")" + std::string(what) + "\"}"));
    run.act(1);
    run.act(1);
    CHECK(run.step.errors.size() == 3);
    run.act(1);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(run.failed(i) == Failed::idle);
      CHECK(run.observed(i, 1) == 0);
    }
    run.act(1);
    for (size_t i = 0; i < 3; ++i) CHECK(run.failed(i) == Failed::no);
  }
}

TEST_CASE("zoo: an agent that fails alone returns with the next world") {
  if (!can_use("numpy")) return;
  Stepping run(zoo_config(3, R"({"what": "nan"})"));
  run.act(1);
  CHECK(run.step.errors == std::vector<std::string>{"row 0: the observation is not finite"});
  for (int t = 2; t <= 4; ++t) {
    run.act(1);
    CHECK(run.failed(0) == Failed::idle);
  }
  CHECK(run.observed(0, 2) == 2);
  run.act(1);
  CHECK(run.failed(0) == Failed::no);
}

TEST_CASE("zoo: no masked action arrives, also after an agent failed and with an inactive row") {
  if (!can_use("numpy")) return;
  Stepping run(zoo_config(6, R"({"masked": true, "what": "nan", "length": 3})"));
  CHECK(run.env->spec().action.masked);
  std::vector<std::string> errors;
  for (int t = 0; t < 24; ++t) {
    if (t == 7 || t == 14) run.env->set_active(4, t == 14);
    run.advance();
    errors.insert(errors.end(), run.step.errors.begin(), run.step.errors.end());
  }
  CHECK(errors ==
        std::vector<std::string>{"row 0: observation state is not finite", "row 3: observation state is not finite"});
}

TEST_CASE("zoo: what cannot share one policy is refused by name, and rows have to be whole worlds") {
  if (!can_use("numpy")) return;
  CHECK(refusal_of(zoo_config(3, R"({"what": "spaces"})"))
            .find("the agents a and b have different observation spaces, expected the same") != std::string::npos);
  CHECK(refusal_of(zoo_config(3, R"({"what": "actions"})"))
            .find("the agents a and c have different action spaces, expected the same") != std::string::npos);
  CHECK(refusal_of(shared_config("zoo", "no_agents", 3)).find("no possible_agents") != std::string::npos);
  CHECK(rows_per_world(zoo_config(3)) == 3);
  CHECK_THROWS_WITH_AS(require_whole_worlds(zoo_config(4)),
                       doctest::Contains("env.rows: 4 is not right, expected a multiple of 3, the number of agents"),
                       ConfigError);
  CHECK(make_evaluation_env(zoo_config(3), "{}", 4)->rows() == 6);
}

TEST_CASE("zoo: an unknown module of PettingZoo is refused with what is near") {
  if (!can_use("numpy")) return;
  EnvConfig config = zoo_config(2);
  config.id = "zoo:butterfly.pistonbal_v6";
  const std::string text = refusal_of(config);
  if (!can_use("pettingzoo")) {
    CHECK(text.find("-m pip install pettingzoo`") != std::string::npos);
    return;
  }
  CHECK(text.find("there is no module pettingzoo.butterfly.pistonbal_v6") != std::string::npos);
  CHECK(text.find("did you mean butterfly.pistonball_v6?") != std::string::npos);
}

TEST_CASE("envpool: episodes follow each other with one void step, and seeds repeat them") {
  if (!can_use("numpy")) return;
  EnvConfig config = python_config("Walk", 3);
  config.id = "envpool:CartPole-v1";
  if (!can_use("envpool")) {
    CHECK(refusal_of(config).find("-m pip install envpool`") != std::string::npos);
    return;
  }
  CHECK(make_env(config)->spec().max_episode_steps == 500);
  Stepping first(config, 5), second(config, 5), other(config, 6);
  CHECK(all_bytes(first.step) == all_bytes(second.step));
  CHECK(all_bytes(first.step) != all_bytes(other.step));
  int ended = 0, idle = 0;
  for (int t = 0; t < 60; ++t) {
    first.act(1);
    second.act(1);
    REQUIRE(all_bytes(first.step) == all_bytes(second.step));
    ended += first.terminated(0);
    idle += first.failed(0) == Failed::idle;
    CHECK(first.step.errors.empty());
  }
  CHECK(ended >= 4);
  CHECK(std::abs(ended - idle) <= 1);
  config.id = "envpool:CartPoel-v1";
  CHECK(refusal_of(config).find("did you mean CartPole-v1?") != std::string::npos);
}
