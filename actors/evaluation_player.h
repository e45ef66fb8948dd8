#pragma once
// EvaluationPlayer: what an evaluation computes, a few steps at a time: episodes of an environment, or answers to the
// held-out prompts of a task. Owned by the evaluator or a command; one thread.

#include <cstdint>
#include <memory>

#include "actors/episode_player.h"
#include "actors/experience/common/scorer.h"
#include "actors/run_context.h"

namespace troupe {

class EvaluationPlayer {
 public:
  virtual ~EvaluationPlayer() = default;

  // Begins anew with these weights and this many episodes, or as many different held-out prompts, if the task has so
  // many. The same seed gives the same ones. Throws what making the environment and the model throws.
  virtual void begin(const WeightSnapshot& weights, uint64_t seed, int64_t episodes) = 0;
  // Throws what the model throws, and EnvironmentFailed.
  virtual void step() = 0;
  // Whether nothing is left to compute: also before begin(), and if that has thrown.
  virtual bool complete() const = 0;
  // How many it plays; 0 before begin().
  virtual uint64_t planned() const = 0;
  // Of what has ended. The return of an answer is its reward, its length is in tokens, and a right one is a success.
  virtual EpisodeSummary summary() const = 0;
};

// `scorer` scores answers; without one, the player makes its own.
std::unique_ptr<EvaluationPlayer> make_evaluation_player(RunContextPtr context,
                                                         std::shared_ptr<Scorer> scorer = nullptr);

}  // namespace troupe
