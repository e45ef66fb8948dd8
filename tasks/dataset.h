#pragma once
// Tasks of prompts that are known before. Internal to tasks/. Any thread.

#include <memory>
#include <vector>

#include "tasks/dataset_file.h"

namespace troupe {

// The task of these prompts, whose answers a verifier scores, and replies to if it `replies`. About 1 prompt of 8 is
// held out, and both splits must have one.
std::unique_ptr<Task> make_verified_task(std::vector<DatasetPrompt> prompts, bool replies = false);

}  // namespace troupe
