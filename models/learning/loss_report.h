#pragma once
// LossReport: the figures of a loss, of some samples or tokens of a minibatch, and how those of parts and steps become
// one. Plain data.

#include <array>
#include <span>

#include "algorithms/losses/surrogate.h"
#include "models/learning/lag_classes.h"

namespace troupe {

// Means over samples; of answers, over their tokens. What algorithm.aggregation aggregates is scaled up as if the rest
// of the minibatch added as much, so that the mean over its parts is the figure of the whole.
struct LossReport {
  double count = 0;                // samples, or tokens of answers
  double policy_loss = 0;          // the aggregate of the surrogate
  double value_loss = 0;           // before its coefficient
  double value_clip_fraction = 0;  // whose value loss is clipped
  double entropy = 0;              // mean over samples, or the aggregate of that of the tokens
  double kl = 0;        // the aggregate of KL(behaviour || current), an estimate or exact; 0 where it is not penalized
  double kl_exact = 0;  // mean over tokens of the same in closed form; 0 without the behaviour policy's parameters
  double loss = 0;      // the sum of all terms with their coefficients
  SurrogateSums surrogate;                    // of one step
  SurrogateDiagnostics diagnostics;           // means over steps
  double kl_count = 0;                        // samples or tokens that diagnostics.kl_k3 is of: of a whole epoch
  std::array<ClassSums, kLagClasses> by_lag;  // of one step: of the tokens with each policy lag
  std::array<ClassDiagnostics, kLagClasses> lag_diagnostics;  // means over steps

  // All numbers but the two counts.
  static constexpr auto means() {
    return std::array{&LossReport::policy_loss, &LossReport::value_loss, &LossReport::value_clip_fraction,
                      &LossReport::entropy,     &LossReport::kl,         &LossReport::kl_exact,
                      &LossReport::loss};
  }

  // Adds the report of more samples of the same step: means over both, and sums.
  void merge(const LossReport& other);
  // Adds the report of another step: means over both. A step's diagnostics come from the sums over all its samples,
  // because an effective sample size is not the mean of those of its parts.
  void add_step(const LossReport& step);

 private:
  void add_means(const LossReport& other);
};

// Of a step to which each shard, at least one, has added samples.
LossReport merged(std::span<const LossReport> shards);

}  // namespace troupe
