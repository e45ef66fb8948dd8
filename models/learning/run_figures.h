#pragma once
// The table of all figures of a run: those of snapshots (runtime/stats/snapshot_fields.h), then those of updates
// (metrics.h), whose paths begin with "learner.". Every view looks figures up here by their path. Any thread.

#include <span>
#include <string_view>

#include "runtime/stats/figure.h"

namespace troupe {

// In the order of docs/metrics.md.
std::span<const Figure> run_figures();
// The figure with that path; null without one.
const Figure* find_figure(std::string_view path);

}  // namespace troupe
