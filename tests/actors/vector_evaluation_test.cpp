// Evaluations of vector environments in Python, in which one episode takes along those that are played beside it.

#include <algorithm>

#include "actors/experience/grid/episode_player.h"
#include "envs/make/make_env.h"
#include "tests/envs/bridge/python_fixtures.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kEpisodes = 20;

EpisodeSummary play(const std::string& name, const std::string& params, int64_t rows, int64_t processes = 1) {
  EnvConfig config = python_config(name, rows, params, processes);
  config.id = "py:tests/envs/bridge/shared_environments.py:" + name;
  std::unique_ptr<Env> env = make_evaluation_env(config, "{}", std::min(rows, kEpisodes));
  FirstAction policy(env->spec());
  EpisodePlayer player(std::move(env), 3, kEpisodes);
  while (!player.complete()) player.step(policy);
  return player.summary();
}

void check_same(const EpisodeSummary& one, const EpisodeSummary& other) {
  CHECK(one.episodes == other.episodes);
  CHECK(one.failed == other.failed);
  CHECK(one.return_mean == other.return_mean);
  CHECK(one.return_std == other.return_std);
  CHECK(one.length_mean == other.length_mean);
  CHECK(one.success_rate == other.success_rate);
}

}  // namespace

TEST_CASE("vector environments: an episode that always fails fails alone, for any number of rows") {
  if (!can_use("numpy")) return;
  for (const std::string where : {"reset", "step"}) {
    CAPTURE(where);
    const auto params = [&](const std::string& mode) {
      return R"({"where": ")" + where + R"(", "mode": ")" + mode + "\"}";
    };
    const EpisodeSummary expected = play("DoomedVector", params("Disabled"), 1);
    CHECK(expected.ended() == kEpisodes);
    CHECK(expected.failed > 0);
    CHECK(expected.failed < 10);
    for (const std::string mode : {"NextStep", "SameStep", "Disabled"})
      for (const int64_t rows : {1, 3, 7, 24}) {
        CAPTURE(mode);
        CAPTURE(rows);
        check_same(play("DoomedVector", params(mode), rows), expected);
      }
    check_same(play("DoomedVector", params("NextStep"), 7, 2), expected);
  }
}

// They take a single seed as well as a list: a reset that fails with a list must not begin other episodes with one
// seed.
TEST_CASE("vector environments: an episode that always fails fails alone in those of Gymnasium") {
  if (!can_use("gymnasium")) return;
  const EpisodeSummary expected = play("DoomedVector", R"({"where": "reset", "mode": "Disabled"})", 1);
  for (const std::string mode : {"NextStep", "SameStep", "Disabled"})
    for (const int64_t rows : {1, 3, 7, 24}) {
      CAPTURE(mode);
      CAPTURE(rows);
      check_same(play("doomed_of_gymnasium", R"({"where": "reset", "mode": ")" + mode + "\"}", rows), expected);
    }
}
