#include "runtime/base/run_ticks.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "runtime/base/child_memory.h"

namespace troupe {

namespace {

// With that of its children that it has waited for.
uint64_t used_by(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  // The program's name, field 2, is in parentheses and may contain spaces. The four times are fields 14 to 17.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  uint64_t user = 0, system = 0, children_user = 0, children_system = 0;
  return fields >> user >> system >> children_user >> children_system ? user + system + children_user + children_system
                                                                      : 0;
}

// The second number of each thread's schedstat, in nanoseconds.
double wait_seconds_of(pid_t id) {
  double sum = 0;
  std::error_code error;
  const std::filesystem::path tasks = "/proc/" + std::to_string(id) + "/task";
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    double ran = 0, waited = 0;
    if (file >> ran >> waited) sum += 1e-9 * waited;
  }
  return sum;
}

}  // namespace

RunTicks ticks_of(pid_t process, std::set<pid_t>& counted) {
  constexpr size_t kMost = 10'000;  // a bound against lists that change while they are read
  RunTicks ticks;
  double waited = 0;  // seconds
  std::vector<pid_t> processes = {process};
  for (size_t i = 0; i < processes.size() && i < kMost; ++i) {
    const pid_t id = processes[i];
    if (!counted.insert(id).second) continue;
    ticks.used += used_by(id);
    waited += wait_seconds_of(id);
    add_children_of(id, processes);
  }
  ticks.waited = static_cast<uint64_t>(waited * static_cast<double>(sysconf(_SC_CLK_TCK)));
  return ticks;
}

RunTicks run_ticks() {
  std::set<pid_t> counted;
  return ticks_of(getpid(), counted);
}

}  // namespace troupe
