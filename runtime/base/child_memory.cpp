#include "runtime/base/child_memory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"

namespace troupe {

namespace {

Mutex children_mutex;
std::set<std::pair<ChildKind, pid_t>> children TROUPE_GUARDED_BY(children_mutex);

uint64_t resident_bytes_of(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/statm");
  uint64_t all = 0, pages = 0;
  return file >> all >> pages ? pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

void add_children_of(pid_t id, std::vector<pid_t>& processes) {
  std::error_code error;
  for (std::filesystem::directory_iterator task("/proc/" + std::to_string(id) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "children");
    for (pid_t child = 0; file >> child;) processes.push_back(child);
  }
}

CountedChild::CountedChild(ChildKind kind, pid_t id) : kind_(kind), id_(id) {
  const MutexLock lock(children_mutex);
  children.emplace(kind, id);
}

CountedChild::~CountedChild() {
  const MutexLock lock(children_mutex);
  children.erase({kind_, id_});
}

uint64_t resident_bytes(ChildKind kind) {
  constexpr size_t kMost = 10'000;  // processes; a bound against lists that change while they are read
  std::vector<pid_t> processes;
  {
    const MutexLock lock(children_mutex);
    for (const auto& [of, id] : children)
      if (of == kind) processes.push_back(id);
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < processes.size() && i < kMost; ++i) {
    sum += resident_bytes_of(processes[i]);
    add_children_of(processes[i], processes);
  }
  return sum;
}

}  // namespace troupe
