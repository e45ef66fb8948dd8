#pragma once
// The section "replay" of a config file. Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct ReplayConfig {
  std::string mode = "consume_once";  // or "reuse"
  int64_t capacity = 0;               // samples held at most; 0 = max_policy_lag + 2 super-batches, at most 16
  int64_t max_policy_lag = 1;   // updates between the weights that made a sample and its use; 0 = synchronous on-policy
  std::string draw = "column";  // the unit that is drawn: a "column" of a rollout, or a "sample"
  int64_t max_reuse = 4;        // "reuse" only: updates that may use one sample
  std::string late = "auto";    // "consume_once": what happens with samples that arrive late; or "wait", "mask", "drop"
  bool filter_groups = false;   // token runs: groups whose answers all have the same reward are not trained
  friend bool operator==(const ReplayConfig&, const ReplayConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(ReplayConfig& config, Fields& fields);

}  // namespace troupe
