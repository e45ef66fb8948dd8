#pragma once
// Checks that this process can start the threads that it will need. A library that cannot start a thread may end the
// process without a message, or wait forever. Called before an actor system is made, by the thread that makes it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace troupe {

using StartThread = std::function<std::thread(const std::function<void()>& body)>;  // throws std::system_error

// Starts `count` threads at once and ends them again. Throws ConfigError with the number that could be started;
// `advice` names another remedy, like "lower workers.count". `start` is for tests.
void require_threads(size_t count, const std::string& advice = {}, const StartThread& start = {});

// The address space that `threads` threads besides this one and `memory` bytes need.
struct AddressSpace {
  uint64_t needed = 0;  // with one allocation arena for all threads
  uint64_t arenas = 1;  // that the C library makes if it can: one for each thread, at most 8 for each core

  // The number of arenas that fit into `available` bytes next to what is needed, at least 1.
  uint64_t arenas_within(uint64_t available) const;
};
AddressSpace address_space_for(size_t threads, uint64_t memory, uint64_t cores);

// Throws ConfigError when `available` bytes of address space (available_address_space()) are fewer than needed. If
// not all arenas fit, limits the C library to those that fit and prints a warning: more would leave no space for stacks
// and data.
void require_address_space(size_t threads, uint64_t memory, uint64_t available, const std::string& advice = {});

}  // namespace troupe
