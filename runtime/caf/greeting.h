#pragma once
// What listens at an address, judged by what it says first. A troupe process begins with CAF's handshake; CAF itself
// says of anything else only that it cannot be read. Blocks its thread; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include <caf/error.hpp>

namespace troupe {

// No error when a CAF process answers at the numeric address; otherwise what does, in words that continue "cannot
// connect: ". Fault::bad_message when it is certainly something else, so that another attempt is useless. Connects once
// and asks a line of JSON if nobody speaks for 2 s.
caf::error await_greeting(const std::string& address, uint16_t port, std::chrono::steady_clock::time_point deadline);

}  // namespace troupe
