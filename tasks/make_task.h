#pragma once
// The table of tasks. Any thread.

#include <memory>
#include <string>
#include <vector>

#include "runtime/config/setting.h"
#include "tasks/task.h"
#include "tasks/task_config.h"

namespace troupe {

// The task with the name and parameters of the config; a name py:MODULE:CALLABLE starts Python (tasks/python_task.h).
// Throws ConfigError "task.name: ..." or "task.params.KEY: ..." for an unknown name, for parameters that are not
// accepted, and for parameters with too few different prompts for two splits. With task.verifier, answers are not
// scored with Task::score().
std::unique_ptr<Task> make_task(const TaskConfig& config);

struct TaskInfo {
  std::string name;
  std::string description;  // one line
  std::vector<SettingInfo> parameters;
};

// Every task, in the order of the table.
std::vector<TaskInfo> list_tasks();

}  // namespace troupe
