#pragma once
// What verifiers have done: of one, of a worker, or of a run. Plain data; any thread.

#include <cstdint>

namespace troupe {

struct VerifierFigures {
  uint64_t calls = 0;         // requests to a process, repeated ones included
  uint64_t failed_calls = 0;  // of them, without scores
  uint64_t restarts = 0;      // processes started in place of one that ended or was killed
  uint64_t scored = 0;        // answers that got a score
  uint64_t busy_us = 0;       // in calls, with the starts of processes
  uint64_t wait_us = 0;       // that requests for scores waited until a process was free

  VerifierFigures& operator+=(const VerifierFigures& other) {
    calls += other.calls;
    failed_calls += other.failed_calls;
    restarts += other.restarts;
    scored += other.scored;
    busy_us += other.busy_us;
    wait_us += other.wait_us;
    return *this;
  }
};

}  // namespace troupe
