#include "actors/episode_player.h"

#include <algorithm>
#include <cmath>

#include "actors/config/run_config.h"
#include "envs/make_env.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// Always takes the first action.
class FirstPolicy final : public Policy {
 public:
  explicit FirstPolicy(EnvSpec spec) : spec_(std::move(spec)) {}
  std::shared_ptr<const Signature> signature() const override { return std::make_shared<const Signature>(); }
  void load(const WeightSnapshot&) override {}
  ActOutput act(const ActInput& input) override {
    const int64_t rows = input.seeds.dim(0);
    return {Array(spec_.action.dtype(), spec_.action.shape().prepended(rows)),
            Array(DType::f32, {rows, spec_.action.decisions()}), Array(DType::f32, {rows})};
  }
  using Policy::values;
  Array values(const Arrays& observations, const Array&) override {
    return Array(DType::f32, {observations[0].second.dim(0)});
  }

 private:
  EnvSpec spec_;
};

RunConfig config_of(const std::string& id, const std::string& params = "{}") {
  RunConfig config;
  config.env.id = id;
  config.evaluation.env_params = params;
  return config;
}

EpisodeSummary play(const RunConfig& config, int64_t rows, int64_t episodes) {
  auto env = make_evaluation_env(config.env, config.evaluation.env_params, rows);
  FirstPolicy policy(env->spec());
  EpisodePlayer player(std::move(env), 1, episodes);
  while (!player.complete()) player.step(policy);
  return player.summary();
}

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
  FirstPolicy policy(env->spec());
  EpisodePlayer player(std::move(env), 1, 4);
  const auto play_on = [&] {
    for (uint64_t step = 0; step < kMaxPlayFailures; ++step) player.step(policy);
  };
  CHECK_THROWS_WITH_AS(play_on(),
                       "the environment failed 1002 times, the last time with: row 1: synthetic: injected exception",
                       EnvironmentFailed);
  CHECK(player.summary().episodes == 0);
}

TEST_CASE("episode_player: any number of failures is allowed while episodes are finished") {
  RunConfig config = config_of("Synthetic", R"({"exception_probability": 0.2, "episode_length": 2})");
  config.env.params = R"({"image_height": 1, "image_width": 1})";
  CHECK(play(config, 4, 8000).episodes == 8000);  // with more than kMaxPlayFailures failures in total
}

TEST_CASE("episode_player: the success rate is NaN if the environment does not report success, else it may be 0") {
  const EpisodeSummary silent = play(config_of("CartPole-v1"), 2, 5);
  CHECK(silent.episodes == 5);
  CHECK(silent.return_mean == silent.length_mean);
  CHECK(std::isnan(silent.success_rate));
  const EpisodeSummary reported = play(config_of("TokenReach", R"({"max_episode_steps": 8})"), 2, 4);
  CHECK(reported.success_rate == 0.0);  // FirstPolicy always moves in the same direction
}

namespace {

// Always takes the first action, and counts the steps of each row's episode in its recurrent state.
class CountingPolicy final : public Policy {
 public:
  explicit CountingPolicy(EnvSpec spec) : first_(std::move(spec)) {}
  std::shared_ptr<const Signature> signature() const override { return first_.signature(); }
  void load(const WeightSnapshot&) override {}
  ActOutput act(const ActInput& input) override {
    ActOutput output = first_.act(input);
    output.state = input.state.clone();
    for (size_t n = 0; n < input.starts.view<uint8_t>().size(); ++n) {
      float& count = output.state.mutable_view<float>()[n];
      count = input.starts.view<uint8_t>()[n] != 0 ? 1.0f : count + 1.0f;
      longest = std::max(longest, count);
    }
    return output;
  }
  using Policy::values;
  Array values(const Arrays& observations, const Array& state) override { return first_.values(observations, state); }

  float longest = 0;

 private:
  FirstPolicy first_;
};

}  // namespace

TEST_CASE("episode_player: a recurrent state is kept from step to step and reset at each new episode") {
  auto env = make_evaluation_env(config_of("Corridor").env, "{}", 2);
  const int64_t limit = env->spec().max_episode_steps;
  CountingPolicy policy(env->spec());
  EpisodePlayer player(std::move(env), 1, 4, 1);
  while (!player.complete()) player.step(policy);
  CHECK(policy.longest == static_cast<float>(limit));  // the first action never reaches the door
}
