#pragma once
// EvaluationPlayer: what an evaluation computes, a few steps at a time: episodes of an environment, or answers to the
// held-out prompts of a task. Owned by the evaluator or a command; one thread.

#include <cstdint>
#include <memory>
#include <string>

#include "actors/config/run_config.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

struct WeightSnapshot;

// What an evaluation plays.
struct EvaluationPlan {
  uint64_t seed = 0;  // the same one gives the same episodes
  // Episodes, or held-out prompts: as many different ones, or all that the task has.
  int64_t episodes = 1;
  int64_t answers = 1;                                   // to each prompt
  double temperature = 0;                                // at which they are sampled; 0 = the most likely answer
  std::shared_ptr<const WeightSnapshot> reference = {};  // its KL is part of the lines of the answers; null = none

  int64_t ends() const { return episodes * answers; }  // that summary() counts, at most
};

inline EvaluationPlan evaluation_plan(const RunConfig& config) {
  const EvaluationConfig& evaluation = config.evaluation;
  return {.seed = config.seed,
          .episodes = evaluation.episodes,
          .answers = evaluation.answers,
          .temperature = evaluation.temperature};
}

struct EpisodeSummary {
  uint64_t episodes = 0;  // played to their end
  uint64_t failed = 0;    // episodes that could not be, because the environment failed; answers without a score
  uint64_t played = 0;    // how often an episode ended or failed: more than both where episodes were played again
  // kUnknown until an episode has ended; without those that failed.
  double return_mean = kUnknown;  // unscaled returns; population standard deviation
  double return_std = kUnknown;
  double return_min = kUnknown;
  double return_max = kUnknown;
  double length_mean = kUnknown;   // environment steps
  double cut_fraction = kUnknown;  // of answers, those that were cut at the largest number of tokens
  // Of all, those that failed included: they are no successes; but only of the answers that have a score. Also kUnknown
  // if the environment does not report success.
  double success_rate = kUnknown;
  PassAtK pass_at = {};    // of answers
  std::string last_error;  // of the environment or the verifier; empty without one

  uint64_t ended() const { return episodes + failed; }
  uint64_t failures() const { return played - episodes; }  // of the environment
};

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

}  // namespace troupe
