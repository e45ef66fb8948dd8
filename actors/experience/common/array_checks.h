#pragma once
// Checks of arrays that another process sent. Pure functions; each returns one line when the array does not fit, and
// nothing when it does.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "models/experience/rollout.h"
#include "runtime/base/array.h"

namespace troupe {

using Misfit = std::optional<std::string>;

// Limit for the names, shapes and counts of a message, which come on top of the elements of its arrays.
constexpr size_t kNamesBytes = size_t{1} << 20;

Misfit check_array(const std::string& name, const Array& array, DType dtype, const Shape& shape);
// Of an array that is empty or float32.
Misfit check_finite(const std::string& name, const Array& array);
// Of uint8: no element is above 1.
Misfit check_flags(const std::string& name, const Array& array);
// `samples`: of the rollout that contains their last steps.
Misfit check_episodes(const Episodes& episodes, uint64_t samples);

}  // namespace troupe
