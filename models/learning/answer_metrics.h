#pragma once
// The metrics of an update about the answers of its super-batch, as entries of the table in metrics.h. A plain
// function; any thread.

#include <vector>

#include "models/learning/metrics.h"

namespace troupe {

// "answer_length_mean", ...; they are a group of their own.
std::vector<Metric> answer_metrics();

}  // namespace troupe
