#pragma once
// The value of a figure that has none yet.

#include <limits>

namespace troupe {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace troupe
