#pragma once
// The tasks of episodes, which rollouts carry as parts of returns with reserved names: one part for each task, whose
// values are 1 for its episodes. Pure functions; any thread.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/experience/rollout.h"

namespace troupe {

// A name that begins with it is that of a task, not of a part of returns.
inline constexpr char kTaskMark = '\x1f';
// Told apart, kOtherTasks among them; and bytes of a name.
inline constexpr size_t kMostTasks = 32, kLongestTask = 60;
inline constexpr std::string_view kOtherTasks = "other";

// `name`, or kOtherTasks if it is not in `known`, an associative container of names, and these are as many as are told
// apart.
template <class Known>
std::string told_apart(const Known& known, const std::string& name) {
  return known.contains(name) || known.size() + 1 < kMostTasks ? name : std::string(kOtherTasks);
}

// Adds the tasks of the episodes, [E]; an empty name is none. Names are made printable and cut.
void add_tasks(Episodes& episodes, std::span<const std::string> tasks);
// The task that a part stands for; nothing if it is one of the returns.
std::optional<std::string> task_of(const ReturnPart& part);

}  // namespace troupe
