#pragma once
// The demonstrations that a task has, as what a learner imitates in a warm-up. Pure function; any thread.

#include <cstdint>
#include <memory>

#include "actors/experience/common/run_spec.h"

namespace troupe {

// `count` of them, drawn by `key`, as answers, one to each prompt. Where answers have several turns, as many are
// answers of each turn, after wrong ones and messages, if the task can make these.
std::unique_ptr<StagedBatch> draw_demonstrations(const RunSpec& run, uint64_t key, int64_t count);

}  // namespace troupe
