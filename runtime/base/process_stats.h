#pragma once
// What the operating system reports about this process. Any thread.

#include <sys/types.h>

#include <chrono>
#include <cstdint>

namespace troupe {

// Resident memory now, and its peak; 0 if the system does not report it.
uint64_t resident_bytes();
uint64_t peak_resident_bytes();

// Processor time of the whole machine since it started, in ticks, of all its processors; zeros if the system does not
// report it.
struct MachineTicks {
  uint64_t busy = 0, total = 0;
};
MachineTicks machine_ticks();

// Whether a process of this machine runs the program of this one, by its name.
bool is_of_this_program(pid_t process);

// The time since the operating system started this process (in steps of 10 ms), which is before the loading of
// libraries and main(); zero if the system does not report it.
std::chrono::steady_clock::duration process_age();

}  // namespace troupe
