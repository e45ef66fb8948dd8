#pragma once
// The section "reward_model" of a config file: a model that scores answers, beside the task or in place of it. Plain
// values; any thread.

#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct RewardModelConfig {
  std::string path;                     // folder of a model of sequence classification with one label; empty = none
  double weight = 1.0;                  // of its score in the reward; 0 = it is only reported
  int64_t threads = 1;                  // that compute scores in each process
  std::string computed_by = "workers";  // or "scorers", which are actors and processes of their own
  bool used() const { return !path.empty(); }
  bool by_scorers() const { return used() && computed_by == "scorers"; }
  friend bool operator==(const RewardModelConfig&, const RewardModelConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(RewardModelConfig& config, Fields& fields);

}  // namespace troupe
