#pragma once
// docs/metrics.md. Pure; any thread.

#include <string>

namespace troupe {

// A page in Markdown about every figure that a run reports.
std::string metrics_reference();

}  // namespace troupe
