#pragma once
// Whether a run has too few processors, for the verdict on what limits it. Pure functions of plain data; any thread.

#include <algorithm>
#include <cmath>

#include "runtime/stats/snapshot.h"

namespace troupe {

constexpr double kSaturated = 0.95;  // share of time from which processors count as always busy

// Of all processors, what other programs use; 0 where it is not known.
inline double used_by_others(const BusyShares& b) {
  return std::isfinite(b.run) ? std::max(b.machine - b.run, 0.0) : 0;
}

// Whether other programs use many of the processors.
inline bool many_others(const BusyShares& b) { return used_by_others(b) > 0.25; }

// Whether threads of the run wait for processors much of the time. True where it is not known.
inline bool waits_for_processors(const BusyShares& b) {
  if (!std::isfinite(b.waiting) || !std::isfinite(b.run)) return true;
  return b.waiting > 0.1 && b.waiting > 0.2 * (b.run + b.waiting);
}

// Whether no processor is left for the run. Other programs may use all processors that the run does not need, as those
// do which the system lets run after it: then the run does not wait, and there is one left.
inline bool no_processor_left(const BusyShares& b) {
  return b.machine > kSaturated && (!many_others(b) || waits_for_processors(b));
}

// Whether other programs use the processors for which the run waits.
inline bool others_slow_it(const BusyShares& b) { return many_others(b) && no_processor_left(b); }

// Whether the run keeps all processors busy.
inline bool run_fills_processors(const BusyShares& b) { return no_processor_left(b) && !many_others(b); }

// Of the time in which threads of the run have something to do, the part that they wait for a processor; unknown where
// that is not known.
inline double wait_for_processors(const BusyShares& b) { return b.waiting / (b.run + b.waiting); }

}  // namespace troupe
