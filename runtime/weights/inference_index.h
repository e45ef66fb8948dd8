#pragma once
// InferenceIndex: the number of an inference actor in its run. The run's process counts its own actors and those of the
// inference processes together, from 0, in the order in which they start or join. An index is never used twice: an
// actor that replaces one that ended, and a process that joins again, get the next one.

#include <cstdint>

namespace troupe {

using InferenceIndex = uint64_t;

}  // namespace troupe
