#pragma once
// Episodes that are played to their end.

#include "actors/config/run_config.h"
#include "actors/experience/grid/episode_player.h"
#include "envs/batched.h"
#include "envs/make/make_env.h"
#include "tests/support/first_action.h"

namespace troupe::test {

inline EpisodeSummary play(const RunConfig& config, int64_t rows, int64_t episodes) {
  auto env = make_evaluation_env(config.env, config.evaluation.env_params, rows);
  FirstAction policy(env->spec());
  EpisodePlayer player(std::move(env), 1, episodes);
  while (!player.complete()) player.step(policy);
  return player.summary();
}

inline EpisodeSummary play(std::unique_ptr<Env> env, int64_t episodes, int64_t rows_per_world = 1) {
  FirstAction policy(env->spec());
  EpisodePlayer player(std::move(env), 7, episodes, 0, rows_per_world);
  while (!player.complete()) player.step(policy);
  return player.summary();
}

}  // namespace troupe::test
