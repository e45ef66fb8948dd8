#pragma once
// The training targets of a staged batch: sequences, advantages, value targets and weights. Everything that needs more
// than one sample is computed here with the weights from before the update, so that it stays the same during the
// update. Used by the learner's thread.

#include <cstdint>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "models/heads/heads.h"
#include "models/learning/gradient_reducer.h"
#include "models/learning/metrics.h"
#include "models/learning/rollout_weights.h"
#include "models/learning/sequence_advantages.h"
#include "models/learning/sequences.h"
#include "models/learning/staging.h"
#include "models/learning/start.h"
#include "models/weights/model_weights.h"

namespace troupe {

struct Prepared {
  Sequences sequences;  // none unless the algorithm asks for them
  Start start;          // empty unless the algorithm asks for it
  TokenAdvantages advantages;
  RolloutWeights correction;
};

// With V-trace, values, returns and advantages of the batch become those of the current weights; where incomplete
// sequences are dropped, only the samples of complete ones stay. `network` is called only for V-trace.
Prepared prepare(const AlgorithmChoice& choice, const AlgorithmConfig& config, const Head& head,
                 const CurrentNetwork& network, Start start, StagedSamples& batch);

// The training targets of the samples. C ratios per sample.
struct Targets {
  std::vector<float> advantages;       // [B] or [B, D], whitened when the config says so
  std::vector<float> values;           // [B] before the update, in units of the value head
  std::vector<float> returns;          // [B] likewise
  std::vector<float> old_log_probs;    // [B, D] of the policy before the update, or empty = the behaviour policy's
  std::vector<float> rollout_weights;  // [B, C] or empty
  std::vector<uint8_t> kept;           // [B, C] 0 = rejected, or a decision that was not executed; or empty = all
};

// Moves what it needs out of `prepared`, and fills in `figures`. Advantages are whitened with the moments of all ranks.
Targets make_targets(const AlgorithmChoice& choice, const StagedSamples& batch, Prepared& prepared, ValueUnits units,
                     TargetFigures& figures, GradientReducer& reducer);

}  // namespace troupe
