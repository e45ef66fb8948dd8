#pragma once
// The processors and the memory that this machine offers a process. Any thread.

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace troupe {

// Processors this process may run on.
uint64_t processors();
// Those of the machine, which may be more: a launcher can bind a process to some of them.
uint64_t all_processors();
// Those that this process or one of these, of the same machine, may run on.
uint64_t processors(const std::set<pid_t>& others);

// Bytes that this process can still allocate: free memory and swap of the machine, or what its control groups and
// `ulimit -v` still allow, if that is less. The largest number if the system does not report it. `root` is put before
// /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

// Bytes of address space that `ulimit -v` leaves this process; the largest number if there is no limit.
uint64_t available_address_space(const std::string& root = "");

// Raises the number of files this process may have open (`ulimit -n`) as far as the system allows. Returns the new
// limit.
uint64_t raise_open_files();

// The names of this machine: its host name, that without a domain, and that in each domain of /etc/resolv.conf. Does
// not use DNS.
std::vector<std::string> own_host_names();

}  // namespace troupe
