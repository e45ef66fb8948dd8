#pragma once
// The memory that a token run needs: the model, its trainer, generators and evaluations, frozen models, and answers.
// Computed from the sizes of the model and of the task. Pure function; any thread.

#include <vector>

#include "actors/memory_estimate.h"

namespace troupe {

// One entry for each use. Reads the prompts and the tokenizer as shared_token_run() does, and the headers of the reward
// model.
std::vector<MemoryNeed> memory_of_answers(const RunConfig& config);

// All answers that replay may hold, and a checkpoint that is written while the next update changes the weights.
std::vector<MemoryNeed> possible_memory_of_answers(const RunConfig& config);

}  // namespace troupe
