#pragma once
// The section "stats" of a config file: reports about a run. Plain values; any thread.

#include <chrono>
#include <cstdint>

#include "runtime/config/fields.h"

namespace troupe {

struct StatsConfig {
  std::chrono::milliseconds interval{2000};  // between reports; not used in deterministic runs
  int64_t every_updates = 10;                // in place of `interval` in deterministic runs: updates between reports
  int64_t window = 100;                      // episodes over which returns are averaged
  int64_t history = 2000;                    // snapshots kept for clients that ask for history
  friend bool operator==(const StatsConfig&, const StatsConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(StatsConfig& config, Fields& fields);

}  // namespace troupe
