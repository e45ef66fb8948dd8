#pragma once
// The units in which replay hands out the samples of a rollout. Only this file knows where a kind of unit is in a
// rollout. Pure functions; any thread.

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/experience/rollout.h"

namespace troupe {

// What replay draws, counts and drops as a whole. Units of one rollout may have different numbers of samples.
struct RolloutUnit {
  int32_t index = 0;     // within the rollout, see UnitKind
  uint32_t samples = 0;  // at least 1
  uint64_t oldest = 0;   // smallest policy version number among them, of answers among their tokens
  uint64_t newest = 0;   // and the largest
};

// All units of a rollout that hold a sample, the ones with earlier steps first.
std::vector<RolloutUnit> units_of(const Rollout& rollout, UnitKind kind);

// The steps that a selection holds, as places t * N + n of the rollout's grid, ordered by t, then n; also the steps of
// its columns that are not valid. Throws InvariantError when an index is out of range.
std::vector<int64_t> steps_of(const RolloutUnits& selection);

// The kind by its name in a config file (`replay.draw`).
UnitKind unit_kind(std::string_view draw);

}  // namespace troupe
