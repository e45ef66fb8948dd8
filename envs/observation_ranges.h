#pragma once
// Observations whose integers a model takes only from a range, because it looks each up in a table. Plain functions;
// the environments that they give are used by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "envs/env.h"

namespace troupe {

struct ObservationRange {
  size_t observation = 0;  // index in EnvSpec::observations, of an array of integers
  int64_t values = 1;      // every integer is from 0 to values - 1
  std::string reason;      // for the error: "the embedding in model.net.encoders has 3 values"
};

// The same environment, in which a row fails that gives an integer outside its range: the transition is void, the error
// names the observation, the integer and the range, the row shows zeros and begins a new episode at the next step.
// `env` itself when there are no ranges.
std::unique_ptr<Env> with_ranges(std::unique_ptr<Env> env, std::vector<ObservationRange> ranges);

}  // namespace troupe
