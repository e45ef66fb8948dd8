#pragma once
// Integer observations that must stay within a range, because the model uses each as an index into a table. Plain
// functions; the returned environments are used by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "envs/env.h"

namespace troupe {

struct ObservationRange {
  size_t observation = 0;  // index in EnvSpec::observations, which must be an array of integers
  int64_t values = 1;      // every integer is from 0 to values - 1
  std::string reason;      // for the error: "the embedding in model.net.encoders has 3 values"
};

// The same environment, but a row fails if it returns an integer outside its range: the step is invalid, the error
// contains the observation, the integer and the range, the row shows zeros and begins a new episode at the next step.
// Returns `env` itself if there are no ranges.
std::unique_ptr<Env> with_ranges(std::unique_ptr<Env> env, std::vector<ObservationRange> ranges);

}  // namespace troupe
