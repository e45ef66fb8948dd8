#pragma once
// The figures of an update, by their names in docs/algorithms.md. Plain functions; any thread.

#include <map>
#include <string>

#include "algorithms/common/algorithm_choice.h"
#include "models/learning/policy_loss.h"
#include <cstdint>

namespace troupe {

struct EpochReport {
  LossReport loss;
  double grad_norm_sum = 0.0;
  uint64_t steps = 0;
  uint64_t skipped = 0;
};

// Of the last epoch of an update.
void describe_epoch(const EpochReport& epoch, const AlgorithmChoice& choice,
                    std::map<std::string, double>& metrics);

}  // namespace troupe
