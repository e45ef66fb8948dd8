#include "models/experience/episode_tasks.h"

#include <cmath>
#include <map>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

void add_tasks(Episodes& episodes, std::span<const std::string> tasks) {
  TROUPE_CHECK(static_cast<int64_t>(tasks.size()) == episodes.count(), tasks.size(), episodes.count());
  std::map<std::string, std::vector<float>> of_task;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].empty()) continue;
    const std::string name = told_apart(of_task, printable(tasks[i], kLongestTask));
    of_task.try_emplace(name, tasks.size(), std::nanf("")).first->second[i] = 1;
  }
  for (const auto& [name, values] : of_task)
    if (episodes.parts.size() < kMostReturnParts) episodes.parts.push_back({kTaskMark + name, Array::of(values)});
}

std::optional<std::string> task_of(const ReturnPart& part) {
  if (!part.name.starts_with(kTaskMark)) return std::nullopt;
  return part.name.substr(1);
}

}  // namespace troupe
