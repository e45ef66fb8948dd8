#include "envs/make/make_env.h"

#include <algorithm>
#include <vector>

#include "envs/corridor.h"
#include "envs/env_table.h"
#include "envs/grid_world.h"
#include "tests/envs/fixtures.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::string refusal(const std::string& id, const std::string& params, int64_t rows = 1, int64_t chunk = 0) {
  EnvConfig config;
  config.id = id;
  config.params = params;
  config.rows = rows;
  config.chunk = chunk;
  try {
    make_env(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("make_env: an unknown id is rejected with the nearest one") {
  CHECK(refusal("CartPole-v2", "{}") == "env.id: \"CartPole-v2\" is unknown, did you mean \"CartPole-v1\"?");
  CHECK(refusal("gridworld", "{}") == "env.id: \"gridworld\" is unknown, did you mean \"GridWorld\"?");
  for (const char* id : {"CartPole", "cartpole", "cart_pole", "CartPol", "CartPole-v0", "cartpole_V1", "CartPole-V17"})
    CHECK(refusal(id, "{}") == "env.id: \"" + std::string(id) + "\" is unknown, did you mean \"CartPole-v1\"?");
  CHECK(refusal("MountainCar", "{}") == "env.id: \"MountainCar\" is unknown, did you mean \"MountainCar-v0\"?");
  CHECK(refusal("-v1", "{}") == "env.id: \"-v1\" is unknown, `troupe envs` lists them");
  CHECK(refusal("", "{}") == "env.id: \"\" is unknown, `troupe envs` lists them");
  CHECK(refusal("Breakout", "{}") == "env.id: \"Breakout\" is unknown, `troupe envs` lists them");
}

TEST_CASE("make_env: wrong parameters are rejected with their path, the value and what is expected") {
  struct Case {
    const char *id, *params, *text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"Pendulum-v1", R"({"gravity": 9})", "env.params.gravity: unknown key, this environment has no parameters"},
           {"CartPole-v1", R"({"velocities": 1})", "env.params.velocities: 1 is a number, expected true or false"},
           {"GridWorld", R"({"observation": "picture"})",
            "env.params.observation: \"picture\" is unknown, expected one of: cell, image"},
           {"GridWorld", R"({"sise": 9})", "env.params.sise: unknown key, did you mean env.params.size?"},
           {"GridWorld", R"({"size": 2})", "env.params.size: 2 is out of range, expected an integer in [3, 64]"},
           {"GridWorld", R"({"size": -1})", "env.params.size: -1 is out of range, expected an integer in [3, 64]"},
           {"GridWorld", R"({"size": 8.5})", "env.params.size: 8.5 is not whole, expected an integer in [3, 64]"},
           {"GridWorld", R"({"size": 5000000000})",
            "env.params.size: 5000000000 is out of range, expected an integer in [3, 64]"},
           {"GridWorld", R"({"size": 18446744073709551615})", "env.params.size: 18446744073709551615 is out of range"},
           {"GridWorld", R"({"size": "8"})", "env.params.size: \"8\" is a string, expected an integer"},
           {"GridWorld", R"({"size": null})", "env.params.size: null is not a value, expected an integer in [3, 64]"},
           {"GridWorld", R"({"size": [8]})", "env.params.size: [8] is an array, expected an integer in [3, 64]"},
           {"GridWorld", R"({"size": 8, "size": 9})", "env.params: size: the key is there twice"},
           {"GridWorld", R"({"slip": 1.5})", "env.params.slip: 1.5 is out of range, expected a number in [0, 1]"},
           {"GridWorld", R"({"slip": true})", "env.params.slip: true is a boolean, expected a number"},
           {"GridWorld", R"({"slip": 1e999})", "number overflow"},
           {"GridWorld", R"({"slip": NaN})", "env.params:1:10: not valid JSON"},
           {"GridWorld", "[1]", "env.params: [1] is not an object"},
           {"GridWorld", "", "env.params: is empty"},
           {"GridWorld", "{", "not valid JSON"},
           {"TokenReach", R"({"task_sampling": "random"})",
            "env.params.task_sampling: \"random\" is unknown, expected one of: failure_weighted, uniform, "
            "round_robin"},
           {"TokenReach", R"({"task_sampling": 1})", "env.params.task_sampling: 1 is a number, expected one of"},
           {"Synthetic", R"({"step_us": -5})", "env.params.step_us: -5 is out of range"},
           {"Corridor", R"({"length": 1})", "env.params.length: 1 is out of range, expected an integer in [2, 1000]"},
       }) {
    const std::string text = refusal(c.id, c.params);
    CHECK_MESSAGE(text.find(c.text) != std::string::npos, text);
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("make_env: an integer may be written with an exponent or a fraction of zero") {
  CHECK(refusal("Corridor", R"({"length": 1e1})") == "accepted");
  CHECK(refusal("Corridor", R"({"length": 12.0})") == "accepted");
  CHECK(refusal("GridWorld", R"({"slip": 0})") == "accepted");
}

TEST_CASE("list_environments: every parameter has a default, a range and a help text") {
  for (const EnvInfo& info : list_environments()) {
    std::string text;
    for (const SettingInfo& each : info.parameters) {
      CAPTURE(info.id + '.' + each.path);
      CHECK_FALSE(each.help.empty());
      CHECK(each.range.empty() == (each.type == "boolean"));
      const std::string plain =
          each.type == "string" ? each.fallback.substr(1, each.fallback.size() - 2) : each.fallback;
      text += (text.empty() ? "" : " ") + each.path + '=' + plain;
    }
    CHECK(text == info.params);
  }
}

TEST_CASE("make_env: rows and chunk out of range are rejected") {
  CHECK(refusal("CartPole-v1", "{}", 0).find("env.rows: 0 is not right, expected an integer in [1,") == 0);
  CHECK(refusal("CartPole-v1", "{}", -3).find("env.rows: -3") == 0);
  CHECK(refusal("CartPole-v1", "{}", 1, -1).find("env.chunk: -1") == 0);
  CHECK(refusal("CartPole-v1", "{}", 1, 1 << 20).find("env.chunk: 1048576") == 0);
  CHECK(refusal("GridWorld", "{}", 1, 4) ==
        "env.chunk: 4 with GridWorld, whose action mask is only known for one step; expected 1");
}

TEST_CASE("make_env: chunk 0 means the environment's default, other values are used") {
  EnvConfig config;
  config.id = "TokenReach";
  CHECK(make_env(config)->spec().action.chunk == 8);
  config.chunk = 2;
  CHECK(make_env(config)->spec().action.chunk == 2);
  CHECK(make_env(EnvConfig{})->spec().action.chunk == 1);
}

TEST_CASE("make_env: a saved state of other parameters is rejected") {
  EnvConfig config;
  config.id = "Corridor";
  config.rows = 1;
  std::string bytes;
  const auto ten = make_env(config);
  EnvStep step = EnvStep::allocate(ten->spec(), 1);
  ten->reset(1, 0, step);
  REQUIRE(ten->save(bytes));
  config.params = R"({"length": 5})";
  CHECK_THROWS_WITH(make_env(config)->load(bytes),
                    "the saved state belongs to Corridor with length=10, this environment is Corridor with length=5");
}

TEST_CASE("make_evaluation_env: its parameters override those of training, and errors contain their path") {
  EnvConfig config;
  std::string evaluation = R"({"task_sampling": "round_robin"})";
  config.id = "TokenReach";
  config.rows = 64;
  config.params = R"({"max_episode_steps": 30})";
  const auto env = make_evaluation_env(config, evaluation, 5);
  CHECK(env->rows() == 5);
  CHECK(env->spec().max_episode_steps == 30);
  EnvStep step = EnvStep::allocate(env->spec(), 5);
  env->reset(1, 0, step);
  CHECK(std::ranges::equal(step.task.view<int32_t>(),
                           std::vector{0, 1, 2, 3, 4}));  // in order, which only round_robin does
  config.params = R"({"task_sampling": "uniform"})";
  make_evaluation_env(config, evaluation, 5)->reset(1, 0, step);
  CHECK(std::ranges::equal(step.task.view<int32_t>(), std::vector{0, 1, 2, 3, 4}));

  const auto refuses = [&](const std::string& id, const std::string& params) -> std::string {
    config.id = id;
    config.params = "{}";
    evaluation = params;
    try {
      make_evaluation_env(config, evaluation, 1);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refuses("GridWorld", R"({"slip": 2})") ==
        "evaluation.env_params.slip: 2 is out of range, expected a number in [0, 1]");
  CHECK(refuses("GridWorld", R"({"slap": 0})") ==
        "evaluation.env_params.slap: unknown key, did you mean evaluation.env_params.slip?");
  CHECK(refuses("GridWorld", "[1]") == "evaluation.env_params: [1] is not an object, expected {\"key\": value}");
  CHECK(refuses("GridWorld", R"({"size": 5})").find("evaluation.env_params: {\"size\": 5} change the observations") ==
        0);
  CHECK(
      refuses("Pendulum-v1", R"({"slip": 0})").find("evaluation.env_params.slip: unknown key, this environment has") ==
      0);
  CHECK(refuses("GridWorld", R"({"slip": 0.5})") == "accepted");
}

TEST_CASE("require_environment_of: the error names an environment that this program does not have") {
  require_environment_of("host:4000", "CartPole-v1");
  CHECK_THROWS_WITH_AS(
      require_environment_of("host:4000", "CartPole-v2"),
      "host:4000: the run needs the environment \"CartPole-v2\", which this program does not have; use a "
      "program built from the same sources as the run's",
      ConfigError);
}

TEST_CASE("list_environments: ids are unique and every entry has a description") {
  const std::vector<EnvInfo> infos = list_environments();
  CHECK(!infos.empty());
  for (size_t i = 0; i < infos.size(); ++i) {
    CHECK(!infos[i].description.empty());
    CHECK(infos[i].error == "");
    CHECK(infos[i].spec.id == infos[i].id);
    for (size_t j = 0; j < i; ++j) CHECK(infos[i].id != infos[j].id);
  }
}

namespace {

// Environments with a mistake in spec().
struct Unseen : Corridor {
  using Corridor::Corridor;
  static EnvSpec spec(const Options& options) {
    EnvSpec spec = Corridor::spec(options);
    spec.observations.clear();
    return spec;
  }
};
struct Unmasked : GridWorld {
  using GridWorld::GridWorld;
  static EnvSpec spec(const Options& options) {
    EnvSpec spec = GridWorld::spec(options);
    spec.action.masked = false;
    return spec;
  }
};
struct Throwing : Corridor {
  using Corridor::Corridor;
  static EnvSpec spec(const Options&) { throw std::runtime_error("no such map"); }
};

}  // namespace

TEST_CASE("list_environments: an environment that cannot be created is reported and the others are listed") {
  const EnvEntry table[] = {{"Unseen", "no observation", make_rows<Unseen>},
                            {"Corridor", "as it is", make_rows<Corridor>},
                            {"Unmasked", "mask() without masked", make_rows<Unmasked>},
                            {"Throwing", "throws", make_rows<Throwing>}};
  const std::vector<EnvInfo> infos = list_environments(table);
  REQUIRE(infos.size() == 4);
  CHECK(infos[0].error == "Unseen: there is no observation, expected at least one (EnvSpec::observations)");
  CHECK(infos[1].error.empty());
  CHECK(infos[1].spec.observations.size() == Corridor::spec({}).observations.size());
  CHECK(infos[2].error == "Unmasked: the environment has mask(), but masked is false (EnvSpec::action)");
  CHECK(infos[3].error == "Throwing: spec() failed: no such map");
}

TEST_CASE("cart_pole: without velocities, the observation is position and angle of the same episode") {
  EnvConfig config;
  config.id = "CartPole-v1";
  config.rows = 3;
  const auto whole = make_env(config);
  config.params = R"({"velocities": false})";
  const auto hidden = make_env(config);
  REQUIRE(hidden->spec().observations[0].shape == Shape{2});
  EnvStep all = EnvStep::allocate(whole->spec(), 3), some = EnvStep::allocate(hidden->spec(), 3);
  whole->reset(7, 0, all);
  hidden->reset(7, 0, some);
  for (uint64_t t = 0; t < 60; ++t) {
    for (int64_t row = 0; row < 3; ++row) {
      const Array wanted_row = all.observations[0].second.at(row), got_row = some.observations[0].second.at(row);
      const auto wanted = wanted_row.view<float>(), got = got_row.view<float>();
      REQUIRE(got[0] == wanted[0]);
      REQUIRE(got[1] == wanted[2]);
    }
    const Array actions = test::random_actions(*whole, all, t);
    whole->step(actions, all);
    hidden->step(actions, some);
  }
}
