#pragma once
// Proving that this process can start the threads it is about to need. A library that cannot start one ends the process without a
// word, or waits for it for ever. Called before an actor system is made, by the thread that makes it.

#include <cstddef>
#include <functional>
#include <string>
#include <thread>

namespace troupe {

using StartThread = std::function<std::thread(const std::function<void()>& body)>;  // throws std::system_error

// Starts `count` threads at once and ends them again. Throws ConfigError with how many could be started; `advice` says what else would
// help, like "lower workers.count". `start` is for tests.
void require_threads(size_t count, const std::string& advice = {}, const StartThread& start = {});

}  // namespace troupe
