#pragma once
// What stats adds up of the reports of inference actors and scorers. Pure functions; any thread.

#include <cstdint>

#include "actors/messages.h"

namespace troupe {

// Adds the counts of `report`.
void add_counts(InferenceReport& sum, const InferenceReport& report);

// Microseconds in handlers between two reports of an actor. Reports come every 500 ms; no more than 10 s, whatever
// another process reports.
uint64_t busy_between(const InferenceReport& before, const InferenceReport& report);

// The report without the batches since the one before.
InferenceReport counts_alone(InferenceReport report);

}  // namespace troupe
