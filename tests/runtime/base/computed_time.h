#pragma once
// For tests of what counts processor time.

#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace troupe::test {

constexpr double kComputed = 0.3;  // seconds of processor time

inline double computed() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline void compute() {
  for (const double begin = computed(); computed() < begin + kComputed;) {
  }
}

inline uint64_t ticks_in(double seconds) {
  return static_cast<uint64_t>(seconds * static_cast<double>(sysconf(_SC_CLK_TCK)));
}

// Most of the ticks of kComputed: the system counts whole ticks.
inline uint64_t most_of_it() { return ticks_in(0.7 * kComputed); }

}  // namespace troupe::test
