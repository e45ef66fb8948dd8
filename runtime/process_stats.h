#pragma once
// What the operating system says of this process. Any thread.

#include <cstdint>

namespace troupe {

// Resident memory now, and the most there was; 0 when the system does not say.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();

}  // namespace troupe
