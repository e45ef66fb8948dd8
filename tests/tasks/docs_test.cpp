// docs/tokens.md has every task, and every parameter with its range, default and effect.

#include "runtime/base/file.h"
#include "tasks/make_task.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("docs: every task and every parameter is in the tables") {
  const std::string page = posix_disk().read("docs/tokens.md", 1 << 20);
  for (const TaskInfo& task : list_tasks()) {
    CHECK_MESSAGE(page.find("| `" + task.name + "` | " + task.description + " |") != std::string::npos, task.name);
    for (const SettingInfo& parameter : task.parameters) {
      const std::string row = "| `" + task.name + "` | `" + parameter.path + "` | " + parameter.range + " | " +
                              parameter.fallback + " | " + parameter.help + " |";
      CHECK_MESSAGE(page.find(row) != std::string::npos, row);
    }
  }
}
