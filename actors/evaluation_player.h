#pragma once
// EvaluationPlayer: what an evaluation computes, a few steps at a time: episodes of an environment, or answers to the
// held-out prompts of a task. Owned by the evaluator or a command; one thread.

#include <cstdint>
#include <memory>
#include <string>

#include "actors/episode_player.h"
#include "actors/experience/common/scorer.h"
#include "actors/run_context.h"

namespace troupe {

// What an evaluation plays.
struct EvaluationPlan {
  uint64_t seed = 0;  // the same one gives the same episodes
  // Episodes, or held-out prompts: as many different ones, or all that the task has.
  int64_t episodes = 1;
  int64_t answers = 1;     // to each prompt
  double temperature = 0;  // at which they are sampled; 0 = the most likely answer

  int64_t ends() const { return episodes * answers; }  // that summary() counts, at most
};

EvaluationPlan evaluation_plan(const RunConfig& config);

class EvaluationPlayer {
 public:
  virtual ~EvaluationPlayer() = default;

  // Begins anew with these weights. Throws what making the environment and the model throws.
  virtual void begin(const WeightSnapshot& weights, const EvaluationPlan& plan) = 0;
  // Throws what the model throws, and EnvironmentFailed.
  virtual void step() = 0;
  // Whether nothing is left to compute: also before begin(), and if that has thrown.
  virtual bool complete() const = 0;
  // How many episodes or answers it plays; 0 before begin().
  virtual uint64_t planned() const = 0;
  // Of what has ended. The return of an answer is its reward, its length is in tokens, and a right one is a success.
  virtual EpisodeSummary summary() const = 0;
  // The lines of answers.jsonl about the answers that have ended since the last call.
  virtual std::string take_answers() { return {}; }
};

// `scorer` scores answers; without one, the player makes its own.
std::unique_ptr<EvaluationPlayer> make_evaluation_player(RunContextPtr context,
                                                         std::shared_ptr<Scorer> scorer = nullptr);

}  // namespace troupe
