#pragma once
// What a run reports of its evaluations, its warm-up and its prompts. Plain values; any thread. A number without a
// value yet is NaN.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/stats/unknown.h"

namespace troupe {

// k and pass@k, k ascending: the share of prompts that k answers solve.
using PassAtK = std::vector<std::pair<uint64_t, double>>;

struct EvaluationResult {
  uint64_t updates = 0;   // of the policy that was evaluated
  uint64_t episodes = 0;  // played to their end
  double return_mean = kUnknown;
  double return_std = kUnknown;
  double length_mean = kUnknown;
  double cut_fraction = kUnknown;  // only in token runs: of the answers, those cut at the largest number of tokens
  double success_rate = kUnknown;  // unknown where the environment does not report success
  uint64_t failed_episodes = 0;  // could not be played, because the environment failed: no successes; or have no score
  uint64_t env_steps = 0;        // of the run after the update that was evaluated
  PassAtK pass_at = {};          // only in token runs
};

// Evaluations that failed, or were not made. The figures are those of the newest one of this start (deterministic runs:
// of the run).
struct FailedEvaluations {
  uint64_t count = 0;            // over all starts of the run
  uint64_t updates = 0;          // of the policy
  uint64_t env_steps = 0;        // of the run after that update
  uint64_t episodes = 0;         // played to their end before it failed
  uint64_t failed_episodes = 0;  // see EvaluationResult
  std::string error;             // empty: there is none, and only `count` means something

  // This, or what earlier starts left if none has failed in this one.
  const FailedEvaluations& or_earlier(const FailedEvaluations& earlier) const {
    return error.empty() ? earlier : *this;
  }
};

// An evaluation that has not ended.
struct EvaluationUnderWay {
  uint64_t updates = 0;   // of the policy
  uint64_t episodes = 0;  // that have ended, of `of`
  uint64_t of = 0;
  double seconds = 0;           // since its start
  uint64_t waiting = 0;         // evaluations that are made after it
  bool holds_training = false;  // as many are open as may be
};

// The warm-up of a token run: steps on demonstrations before the first update.
struct WarmupState {
  uint64_t step = 0;            // that has ended, of at most `of`
  uint64_t of = 0;              // warmup.steps
  uint64_t checked = 0;         // the step after which pass_at_1 was measured; 0 = not yet
  double pass_at_1 = kUnknown;  // of held-out prompts
  double loss = kUnknown;       // of the last step: the mean negative log-likelihood per token
  double seconds = 0;           // that it took, in all starts of the run; 0 in deterministic runs
  bool complete = false;        // it is over, or the run has none
};

// Of the prompts that workers have asked, where they draw them by their failures; each worker counts its own.
struct PromptSummary {
  uint64_t asked = 0;             // different ones
  double success = kUnknown;      // mean over prompts of the rate at which they are answered right
  double solved = kUnknown;       // share of those to which all answers were right, the last time
  double never_right = kUnknown;  // share of those to which no answer was ever right
};

}  // namespace troupe
