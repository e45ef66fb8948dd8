#pragma once
// Runs on environments that are slow or fail.

#include <chrono>

namespace troupe::test {

// A stalled step takes an hour. A program that waits for it exceeds this limit and fails the test.
inline constexpr std::chrono::seconds kEnd{30};

}  // namespace troupe::test
