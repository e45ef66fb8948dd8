// Tests of the program itself: troupe envs.
#include <nlohmann/json.hpp>

#include "tests/support/run_program.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("troupe: lists fit 100 columns") {
  // Except a setting with its range, which stays on one line.
  for (const Words& words : {Words{"envs"}, Words{"config", "--fields"}})
    for (const std::string& line : lines_of(run_troupe(words).out))
      if (line.starts_with("  ")) CHECK(line.size() <= 100);
}

TEST_CASE("troupe: envs lists the environments, as text and as JSON") {
  CHECK(run_troupe({"envs"}).out.starts_with("CartPole-v1\n"));
  const std::string one = run_troupe({"envs", "GridWorld"}).out;
  CHECK(one.starts_with("GridWorld\n"));
  CHECK(one.find("    size = 8  integer [3, 64]\n        cells along each side of the grid\n") != std::string::npos);
  const test::CommandResult unknown = run_troupe({"envs", "gridword"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err == "troupe: gridword: unknown environment, did you mean GridWorld?\n");
  const std::string image = run_troupe({"envs", "GridWorld", "--set", "env.params.observation=image"}).out;
  CHECK(image.find("image uint8 [3, 8, 8]") != std::string::npos);
  CHECK(one.find("image uint8") == std::string::npos);
  const auto shows = [](const Words& words, const char* text) {
    return run_troupe(words).out.find(text) != std::string::npos;
  };
  CHECK(shows({"envs", "Pendulum-v1"}, "actions: continuous [1], from -2 to 2\n"));
  CHECK(
      shows({"envs", "Pendulum-v1", "--set", "env.normalize_actions=true"}, "actions: continuous [1], from -1 to 1\n"));
  CHECK(shows({"envs", "TokenReach"}, "actions: multi_discrete [2] of 256"));
  CHECK(shows({"envs", "Synthetic"}, "observations: image uint8 [3, 224, 224], state float32 [7]\n"));
  check_all({
      {{"envs", "GridWorld", "--set", "env.params.sise=5"},
       "--set: env.params.sise: unknown key, did you mean env.params.size?"},
      {{"envs", "--set", "env.params.size=5"}, "--set: needs an ENVIRONMENT"},
      {{"envs", "GridWorld", "--set", "trainer.epochs=5"},
       "--set: trainer.epochs=5: expected env.params.KEY=VALUE, env.chunk=VALUE, env.python=VALUE "
       "or env.normalize_actions=VALUE"},
      {{"envs", "py:caf\xe9/maze.py:Maze"},
       "\"py:caf\\xe9/maze.py:Maze\" has the byte \\xe9, which is not UTF-8, expected an environment id"},
      {{"envs", "lib:a\nb.so"}, "\"lib:a\\x0ab.so\" has the control character \\x0a, expected an environment id"},
      {{"envs", "ray:CartPole"},
       "env.id: \"ray:CartPole\" begins with an unknown scheme, expected one of: gym:ID, envpool:ID, "
       "zoo:MODULE, py:MODULE:CALLABLE, mujoco:ID, lib:FILE.so"},
  });
  const auto list = nlohmann::json::parse(run_troupe({"envs", "--json"}).out);
  CHECK(list.at(0).at("id") == "CartPole-v1");
  CHECK(list.at(0).at("observations").at(0).at("shape") == std::vector<int>{4});
  CHECK(list.at(0).at("action").at("bins") == std::vector<int>{2});
}

TEST_CASE("troupe: envs separates observations, and shows each number of choices if they differ") {
  if (!python_has("numpy")) return;
  const auto shown = [](const std::string& name) {
    return run_troupe({"envs", "py:tests/envs/bridge/environments.py:" + name, "--set", "env.python=" + test_python()})
        .out;
  };
  CHECK(shown("Choices").find("actions: multi_discrete [2] of [3, 4]\n") != std::string::npos);
  CHECK(shown("Spaces").find("observations: image uint8 [2, 2], large int64 [1], choice float32 [3], ") !=
        std::string::npos);
}
