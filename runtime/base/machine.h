#pragma once
// What this machine has for a process: processors and memory. Any thread.

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

// Processors this process may run on.
uint64_t processors();

// Bytes that this process can still take: free memory and swap of the machine, or what is left of the limits of its
// control groups and of `ulimit -v` where these are tighter. The largest number when the system does not say. `root`
// stands before /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

// Bytes of address space that `ulimit -v` leaves this process; the largest number without that limit.
uint64_t available_address_space(const std::string& root = "");

// Raises the number of files this process may have open (`ulimit -n`) as far as the system allows. Returns that number.
uint64_t raise_open_files();

// The names of this machine: its host name, that without a domain, and that in each domain of /etc/resolv.conf. Asks no
// name server.
std::vector<std::string> own_host_names();

}  // namespace troupe
