#pragma once
// The training targets of a staged batch: sequences, advantages, value targets and weights. Everything that needs more
// than one sample is computed here with the weights from before the update, so that it stays the same during the
// update. Used by the learner's thread.

#include <cstdint>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/common/moments.h"
#include "algorithms/losses/value_loss.h"
#include "models/heads/heads.h"
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

// The samples to train on of one shard, N of them: what their targets are made from.
struct TrainedColumns {
  std::vector<float> advantages;  // [N] or [N, D]
  std::vector<uint8_t> counted;   // [N, D] which advantages belong to executed decisions; empty = all
  std::vector<float> values;      // [N] in reward units
  std::vector<float> returns;     // [N] likewise
};
TrainedColumns trained_columns(const StagedSamples& batch, const Prepared& prepared);

// Of the samples of some shards.
struct TargetMoments {
  Moments advantages;  // of executed decisions, before whitening
  Moments returns;
  ValueFit fit;

  // Adds those of other shards.
  void merge(const TargetMoments& other);
};
TargetMoments target_moments(const TrainedColumns& columns);

// Moves what it needs out of `prepared` and `columns`. Advantages are whitened with `advantages`, the moments of those
// of all shards.
Targets make_targets(const AlgorithmChoice& choice, const StagedSamples& batch, Prepared& prepared,
                     TrainedColumns& columns, ValueUnits units, const Moments& advantages);

}  // namespace troupe
