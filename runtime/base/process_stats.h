#pragma once
// What the operating system says of this process. Any thread.

#include <chrono>
#include <cstdint>

namespace troupe {

// Resident memory now, and the most there was; 0 when the system does not say.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();

// How long this process exists, from its start by the operating system (10 ms steps), before main() and the loading of
// libraries; zero when the system does not say.
std::chrono::steady_clock::duration process_age();

}  // namespace troupe
