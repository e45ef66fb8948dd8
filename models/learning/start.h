#pragma once
// What the policy says about a staged batch at the start of an update, before the weights change. Plain functions over callbacks, so
// that no tensor library is needed; used by the learner's thread.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/heads/heads.h"
#include "models/learning/minibatch.h"
#include "models/learning/sequence_advantages.h"
#include "models/learning/staging.h"
#include "models/weights/model_weights.h"

namespace troupe {

// What the network says about some rows, in host memory; valid until the next call.
struct RowOutputs {
  std::span<const float> outputs;  // [B, P] of the policy
  std::span<const float> values;   // [B] in units of the value head
};

// The network with its current weights.
struct CurrentNetwork {
  std::function<RowOutputs(std::span<const int64_t> rows)> evaluate;
  // The values alone of rows [begin, end) of the batch's bootstrap inputs.
  std::function<std::span<const float>(int64_t begin, int64_t end)> bootstrap_values;
  std::span<const float> log_std;  // [D]; empty unless continuous
  ValueUnits units;
  int64_t rows_per_pass = 1;
};

struct Start {
  std::vector<float> values;  // [R] in reward units; of rows that are no samples the behaviour policy's
  StartProbabilities policy;
};

// `probabilities`: also the squared probabilities of all categories. A pass with outputs that are not finite becomes NaN, which every
// step of the update then refuses.
Start evaluate_start(const StagedRows& batch, const CurrentNetwork& network, const Head& head, Minibatch& minibatch,
                     bool probabilities);

// Replaces the workers' values of the observations after segments and cuts.
void evaluate_bootstraps(const CurrentNetwork& network, StagedRows& batch);

}  // namespace troupe
