#include "actors/experience/grid/episode_player.h"

#include <algorithm>
#include <cmath>

#include "actors/config/run_config.h"
#include "envs/batched.h"
#include "envs/make/make_env.h"
#include "tests/actors/experience/grid/played_episodes.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig config_of(const std::string& id, const std::string& params = "{}") {
  RunConfig config;
  config.env.id = id;
  config.evaluation.env_params = params;
  return config;
}

// Always takes the first action, and counts the steps of each row's episode in its recurrent state.
class CountingPolicy final : public FirstAction {
 public:
  using FirstAction::FirstAction;
  ActOutput act(const ActInput& input) override {
    ActOutput output = FirstAction::act(input);
    output.state = input.state.clone();
    for (size_t n = 0; n < input.starts.view<uint8_t>().size(); ++n) {
      float& count = output.state.mutable_view<float>()[n];
      count = input.starts.view<uint8_t>()[n] != 0 ? 1.0f : count + 1.0f;
      longest = std::max(longest, count);
    }
    return output;
  }

  float longest = 0;
};

}  // namespace

TEST_CASE("episode_player: statistics are unknown until an episode ends") {
  EpisodePlayer player(make_evaluation_env(config_of("TokenReach").env, "{}", 2), 1, 4);
  const EpisodeSummary s = player.summary();
  CHECK(s.episodes == 0);
  for (double x : {s.return_mean, s.return_std, s.return_min, s.return_max, s.length_mean, s.success_rate})
    CHECK(std::isnan(x));
}

TEST_CASE("episode_player: if environments always fail, their error ends it") {
  auto env = make_evaluation_env(config_of("Synthetic").env, R"({"exception_probability": 1})", 2);
  FirstAction policy(env->spec());
  EpisodePlayer player(std::move(env), 1, 4);
  const auto play_on = [&] {
    for (uint64_t step = 0; step < kMaxPlayFailures; ++step) player.step(policy);
  };
  CHECK_THROWS_WITH_AS(play_on(),
                       "the environment failed 16 times, the last time with: row 0: synthetic: injected exception",
                       EnvironmentFailed);
  CHECK(player.summary().episodes == 0);
  CHECK(player.summary().failed == 4);
}

TEST_CASE("episode_player: of many episodes that all fail, not all are tried") {
  auto env = make_evaluation_env(config_of("Synthetic").env, R"({"exception_probability": 1})", 4);
  FirstAction policy(env->spec());
  EpisodePlayer player(std::move(env), 1, 1'000'000);
  const auto play_on = [&] {
    for (uint64_t step = 0; step <= kMaxPlayFailures; ++step) player.step(policy);
  };
  CHECK_THROWS_AS(play_on(), EnvironmentFailed);
  CHECK(player.summary().played == kMaxPlayFailures + 4);  // four fail at a time
}

TEST_CASE("episode_player: any number of failures is allowed once an episode has ended") {
  RunConfig config = config_of("Synthetic", R"({"exception_probability": 0.2, "episode_length": 2})");
  config.env.params = R"({"image_height": 1, "image_width": 1})";
  const EpisodeSummary s = play(config, 4, 8000);
  CHECK(s.ended() == 8000);
  CHECK(s.failed > kMaxPlayFailures);
  CHECK(s.played == 8000 + 3 * s.failed);  // once with others, three times alone
}

TEST_CASE("episode_player: the episodes are the same for any number of rows") {
  const EpisodeSummary one = play(config_of("CartPole-v1"), 1, 23);
  for (const int64_t rows : {2, 5, 23}) {
    const EpisodeSummary several = play(config_of("CartPole-v1"), rows, 23);
    CHECK(several.return_mean == one.return_mean);
    CHECK(several.return_std == one.return_std);
    CHECK(several.return_min == one.return_min);
  }
}

TEST_CASE("episode_player: the success rate is NaN if the environment does not report success, else it may be 0") {
  const EpisodeSummary silent = play(config_of("CartPole-v1"), 2, 5);
  CHECK(silent.episodes == 5);
  CHECK(silent.return_mean == silent.length_mean);
  CHECK(std::isnan(silent.success_rate));
  const EpisodeSummary reported = play(config_of("TokenReach", R"({"max_episode_steps": 8})"), 2, 4);
  CHECK(reported.success_rate == 0.0);  // FirstAction always moves in the same direction
}

TEST_CASE("episode_player: a recurrent state is kept from step to step and reset at each new episode") {
  auto env = make_evaluation_env(config_of("Corridor").env, "{}", 2);
  const int64_t limit = env->spec().max_episode_steps;
  CountingPolicy policy(env->spec());
  EpisodePlayer player(std::move(env), 1, 4, 1);
  while (!player.complete()) player.step(policy);
  CHECK(policy.longest == static_cast<float>(limit));  // the first action never reaches the door
}
