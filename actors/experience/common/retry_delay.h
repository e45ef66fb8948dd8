#pragma once
// After how long a worker asks again for what has failed. Any thread.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace troupe {

// 10 ms after the first failure, twice as long after each further one, at most 1 s.
inline std::chrono::milliseconds retry_delay(uint64_t failures) {
  constexpr std::chrono::milliseconds kFirst{10}, kLongest{1000};
  constexpr uint64_t kMostDoublings = 7;
  return std::min(kFirst * (1 << std::min(failures - 1, kMostDoublings)), kLongest);
}

}  // namespace troupe
