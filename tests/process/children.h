#pragma once
// The processes that a process has started, as /proc has them.

#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "tests/process/process.h"

namespace troupe::test {

struct ProcessState {
  char state = 0;  // Z: a zombie, ended and not yet reaped
  pid_t parent = 0;
};

// No value if the process does not exist.
inline std::optional<ProcessState> state_of(pid_t id) {
  const std::string text = text_of("/proc/" + std::to_string(id) + "/stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  ProcessState result;
  words >> result.state >> result.parent;
  return result;
}

inline bool runs(pid_t id) {
  const auto found = state_of(id);
  return found && found->state != 'Z';
}

// Zombies included.
inline std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto id = static_cast<pid_t>(std::stol(name));
    if (const auto found = state_of(id); found && found->parent == parent) children.insert(id);
  }
  return children;
}

inline bool all_gone(const std::set<pid_t>& ids) {
  return std::ranges::none_of(ids, [](pid_t id) { return runs(id); });
}

}  // namespace troupe::test
