#pragma once
// What this machine has for a process: processors and memory. Any thread.

#include <cstdint>
#include <string>

namespace troupe {

// Processors this process may run on.
uint64_t processors();

// Bytes that this process can still take: free memory and swap of the machine, or what is left of the limits of its control groups and of
// `ulimit -v` where these are tighter. The largest number when the system does not say. `root` stands before /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

}  // namespace troupe
