#pragma once
// What the environments or the task of a process are like, as text, so that a run and a worker that joins can compare
// them. Pure functions.

#include <optional>
#include <string>

#include "actors/messages/experience.h"

namespace troupe {

struct RunContext;

// By name: what a rollout depends on.
SpecFields spec_fields(const RunContext& context);

// The fields in which a worker differs from the run, with both values; nothing when there are none.
std::optional<std::string> spec_difference(const SpecFields& run, const SpecFields& worker);

}  // namespace troupe
