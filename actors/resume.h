#pragma once
// How a run resumes from a checkpoint: what is saved beside the learner's state, and what a new process reads from it.
// Plain functions.

#include <cstdint>
#include <map>
#include <string>

#include "actors/replay_buffer.h"
#include "models/policy.h"
#include "runtime/run_folder/checkpoint.h"
#include "runtime/stats/ledger.h"

namespace troupe {

// The scalar that holds ReplayStart::time_progress; the trainer puts it beside the learner's.
inline constexpr const char* kTimeProgress = "stats.time_progress";

// How far the warm-up is, as scalars of a checkpoint; the trainer puts them beside the learner's.
// Whether it was written in a warm-up.
bool in_warmup(const Checkpoint& checkpoint);
void put_warmup(const WarmupState& warmup, std::map<std::string, double>& scalars);

// Ledger and totals of the run.
void put_counts(Checkpoint& checkpoint, const CheckpointMessage& message);

// The scalar of that name, which is a count. Throws ConfigError when there is none, or when it is something else.
uint64_t saved_count(const Checkpoint& checkpoint, const std::string& name);

// Throws ConfigError that names the entry where the counts in the checkpoint contradict each other. A sample takes 1 to
// `steps_per_sample` environment steps.
void check_counts(const Checkpoint& checkpoint, uint64_t steps_per_sample);

// Begins a new run with the weights of another one: a fresh optimizer, and every count at 0. Throws ConfigError when
// they do not fit.
ReplayStart start_from(const std::map<std::string, Array>& weights, Learner& learner);

// Restores the learner. The result is under an epoch of its own, so that nothing made before can be taken for newer.
// Throws ConfigError when the checkpoint does not fit.
ReplayStart resume(const Checkpoint& checkpoint, Learner& learner);

}  // namespace troupe
