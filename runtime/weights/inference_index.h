#pragma once
// InferenceIndex: which inference actor of a run is meant. The run's process counts its own actors and those of the
// inference processes together, from 0, in the order in which they start or join. An index is never given to another
// one: an actor that takes the place of one that ended, and a process that joins again, get the next.

#include <cstdint>

namespace troupe {

using InferenceIndex = uint64_t;

}  // namespace troupe
