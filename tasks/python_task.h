#pragma once
// Whole tasks in Python: `task.name` "py:MODULE:CALLABLE". The callable, given task.params, makes an object that draws
// prompts and scores answers. Blocks; any thread.

#include <memory>

#include "tasks/task.h"
#include "tasks/task_config.h"

namespace troupe {

// Whether task.name refers to a task in Python.
bool is_python_task(const TaskConfig& config);

// Starts a Python process and asks it for task.params.prompts prompts, or as many as there are; of prompts that are
// equal the first one counts. Their answers are scored by task.verifier, which is task.name for the object's own score.
// Throws ConfigError "task.name: ..." if the process fails or a prompt is not accepted.
std::unique_ptr<Task> make_python_task(const TaskConfig& config);

}  // namespace troupe
