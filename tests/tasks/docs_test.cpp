// docs/tokens.md names every task, parameter, default and range.

#include <fstream>
#include <sstream>

#include "tasks/make_task.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("docs: every task and every parameter is in the tables") {
  std::ifstream file("docs/tokens.md");
  REQUIRE(file.good());
  std::stringstream page;
  page << file.rdbuf();
  for (const TaskInfo& task : list_tasks()) {
    CHECK_MESSAGE(page.str().find("| `" + task.name + "` |") != std::string::npos, task.name);
    for (const SettingInfo& parameter : task.parameters) {
      const std::string row = "| `" + task.name + "` | `" + parameter.path + "` | " + parameter.fallback + " | " +
                              parameter.range + " | " + parameter.help + " |";
      CHECK_MESSAGE(page.str().find(row) != std::string::npos, row);
    }
  }
}
