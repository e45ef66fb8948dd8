#pragma once
// Proving that this process can start the threads it is about to need. A library that cannot start one ends the process
// without a word, or waits for it for ever. Called before an actor system is made, by the thread that makes it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace troupe {

using StartThread = std::function<std::thread(const std::function<void()>& body)>;  // throws std::system_error

// Starts `count` threads at once and ends them again. Throws ConfigError with how many could be started; `advice` says
// what else would help, like "lower workers.count". `start` is for tests.
void require_threads(size_t count, const std::string& advice = {}, const StartThread& start = {});

// What `threads` threads beside this one and `memory` bytes take of the address space.
struct AddressSpace {
  uint64_t needed = 0;  // with one allocation arena for all threads
  uint64_t arenas = 1;  // that the C library makes as long as it can: one for each thread, at most 8 for each core

  // As many of them as `available` bytes hold beside what is needed, at least 1.
  uint64_t arenas_within(uint64_t available) const;
};
AddressSpace address_space_for(size_t threads, uint64_t memory, uint64_t cores);

// Throws ConfigError when `available` bytes of address space (available_address_space()) are fewer than needed. When
// they do not hold all arenas, the C library makes only as many as fit from now on, and a warning says so: more would
// leave nothing for stacks and data.
void require_address_space(size_t threads, uint64_t memory, uint64_t available, const std::string& advice = {});

}  // namespace troupe
