#pragma once
// The bottlenecks that `troupe bench verdicts` builds. Plain values.

#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "runtime/stats/verdict.h"
#include "tools/bench/slow_run.h"

namespace troupe {

struct SlowRun {
  RunConfig config;
  SlowCosts costs;
};

struct VerdictCase {
  std::string name;
  Resource right;        // what the verdict has to say
  std::string change;    // what the advice makes of it
  SlowRun run, advised;  // without and with that change
};

std::vector<VerdictCase> verdict_cases();

}  // namespace troupe
