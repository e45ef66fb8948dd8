#include "tasks/task_config.h"

namespace troupe {

void describe(TaskConfig& c, Fields& fields) {
  const Section s(fields, "task", "tasks");
  s.add(c.name, "name", matching("^[A-Za-z0-9_./:-]{1,100}$", "the name of a task like reverse"),
        "the source of prompts, which also scores the answers");
  s.add_object(c.params, "params", "the task's own parameters");
}

}  // namespace troupe
