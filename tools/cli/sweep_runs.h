#pragma once
// The runs of a sweep, each a process of its own. Main thread; blocks until all have ended.

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/descriptor.h"
#include "tools/cli/flags.h"

namespace troupe {

struct SweepRun {
  std::string name, folder;
  Words command;       // the first word is a path
  std::string config;  // the effective one, as JSON
};

struct SweepOutcome {
  size_t finished = 0;  // now or before
  Words failed;         // a line for each run that failed
  bool stopped = false;
};

// Runs at most `jobs` at a time, in their order, without those that have finished with the same settings. Once `stop`
// is readable it begins no more, and asks those that run to stop. Prints a line for each run that ends.
SweepOutcome run_sweep(const std::vector<SweepRun>& runs, size_t jobs, const Descriptor& stop);

}  // namespace troupe
