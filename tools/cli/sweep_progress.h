#pragma once
// How far a sweep is, in one line. Plain functions; any thread.

#include <cstddef>
#include <limits>
#include <span>
#include <string>

namespace troupe {

// A run of a sweep that trains.
struct SweptRunProgress {
  std::string name;
  double seconds = 0;   // since it was begun by this sweep
  double progress = 0;  // 0 to 1; NaN if it is not known
};

struct SweepProgress {
  size_t ended = 0, runs = 0, jobs = 1;
  std::span<const SweptRunProgress> running;
  double mean_seconds = std::numeric_limits<double>::quiet_NaN();  // of runs that finished; NaN without any
};

// Seconds until all runs have ended, if the others take as long as those before or, without these, as the progress of
// those that train says; NaN if nothing is known.
double seconds_left(const SweepProgress& sweep);

// "2 of 6 ended, trains policy_lr=0.001_seed=3 (45 %), ETA 1:20".
std::string sweep_progress_text(const SweepProgress& sweep);

}  // namespace troupe
