#pragma once
// What an entry of the table of tasks has, and the tasks that make_task.cpp puts into it. Internal to tasks/. Any
// thread.

#include <memory>
#include <span>

#include "tasks/task.h"
#include "tasks/task_params.h"

namespace troupe {

struct TaskEntry {
  const char* name;
  const char* description;  // one line
  std::span<const Setting> (*settings)();
  // Throws ConfigError for parameters that do not fit each other.
  std::unique_ptr<Task> (*make)(const TaskParams& params);
  bool splits_checked = false;  // make() has checked that each split has prompts
};

TaskEntry reverse_task();
TaskEntry sort_task();
TaskEntry addition_task();
TaskEntry countdown_task();
TaskEntry chain_sum_task();
TaskEntry dataset_task();

}  // namespace troupe
