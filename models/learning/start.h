#pragma once
// What the policy computes for a staged batch at the start of an update, before the weights change. Plain functions
// over callbacks, so that no tensor library is needed; used by the learner's thread.

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

// What the policy computes for the stored actions of some samples, in host memory; valid until the next call.
struct SampleEvaluation {
  std::span<const float> log_probs;       // [B, D]
  std::span<const float> sum_pi_squared;  // [B, D] of all categories of a decision; empty unless asked for
  std::span<const float> values;          // [B] in units of the value head
};

// The network with its current weights.
struct CurrentNetwork {
  std::function<SampleEvaluation(std::span<const int64_t> samples, bool probabilities)> evaluate;
  // The values alone of the batch's bootstrap inputs [begin, end).
  std::function<std::span<const float>(int64_t begin, int64_t end)> bootstrap_values;
  ValueUnits units;
  int64_t samples_per_pass = 1;
};

// The network's outputs for some samples, in host memory.
struct SampleOutputs {
  std::span<const float> outputs;  // [B, P] of the policy
  std::span<const float> values;   // [B] in units of the value head
};

// Evaluates stored actions in plain loops; its buffers are reused.
class HostEvaluation {
 public:
  explicit HostEvaluation(const Head& head) : head_(head), minibatch_(head) {}

  // A sample whose outputs are not finite has log-probabilities of NaN. A step whose minibatch holds it is skipped;
  // where the advantages are whitened or come from V-trace, NaN spreads to all of them, and every step of the update is
  // skipped.
  SampleEvaluation evaluate(const StagedSamples& batch, std::span<const int64_t> samples, SampleOutputs said,
                            std::span<const float> log_std, bool probabilities);

 private:
  const Head& head_;
  Minibatch minibatch_;
  HeadScratch scratch_;
  std::vector<float> log_probs_, squared_, entropy_, finite_outputs_;
};

struct Start {
  std::vector<float> values;  // [B] in reward units; the behaviour policy's where a sample is not trained on
  StartProbabilities policy;
};

// `probabilities`: also the squared probabilities of all categories.
Start evaluate_start(const StagedSamples& batch, const CurrentNetwork& network, int64_t decisions, bool probabilities);

// Replaces the workers' values of the observations after last steps and cuts.
void evaluate_bootstraps(const CurrentNetwork& network, StagedSamples& batch);

}  // namespace troupe
