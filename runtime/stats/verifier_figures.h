#pragma once
// What verifiers, and the functions that reply to answers, have done: of one, of a worker, or of a run. Plain data; any
// thread.

#include <cstdint>

namespace troupe {

struct VerifierFigures {
  uint64_t calls = 0;           // requests to a process, repeated ones included
  uint64_t failed_calls = 0;    // of them, without scores or replies
  uint64_t restarts = 0;        // processes started in place of one that ended or was killed
  uint64_t scored = 0;          // answers that got a score
  uint64_t busy_us = 0;         // in calls, with the starts of processes
  uint64_t wait_us = 0;         // that requests for scores and replies waited until a process was free
  uint64_t replied = 0;         // answers that got a message, or no further turn
  uint64_t failed_replies = 0;  // answers on which the reply failed; they have no score

  VerifierFigures& operator+=(const VerifierFigures& other) {
    calls += other.calls;
    failed_calls += other.failed_calls;
    restarts += other.restarts;
    scored += other.scored;
    busy_us += other.busy_us;
    wait_us += other.wait_us;
    replied += other.replied;
    failed_replies += other.failed_replies;
    return *this;
  }
};

}  // namespace troupe
