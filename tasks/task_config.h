#pragma once
// The section "task" of a config file. Plain values; any thread.

#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct TaskConfig {
  std::string name = "reverse";  // the task; docs/tokens.md lists them
  // JSON object with the task's parameters, which the task checks.
  std::string params = "{}";
  friend bool operator==(const TaskConfig&, const TaskConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(TaskConfig& config, Fields& fields);

}  // namespace troupe
