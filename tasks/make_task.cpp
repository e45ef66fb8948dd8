#include "tasks/make_task.h"

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tasks/python_task.h"
#include "tasks/task_table.h"

namespace troupe {

namespace {

std::span<const TaskEntry> table() {
  static const TaskEntry entries[] = {
      reverse_task(), sort_task(), addition_task(), countdown_task(), chain_sum_task(), dataset_task(),
  };
  return entries;
}

std::string unknown_name(const std::string& name) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : table()) names.emplace_back(entry.name);
  const std::string near = closest(name, names);
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  return "task.name: \"" + printable(name) + "\" is unknown, " +
         (near.empty() ? "expected one of: " + list : "did you mean \"" + near + "\"?");
}

}  // namespace

std::unique_ptr<Task> make_task(const TaskConfig& config) {
  if (is_python_task(config)) return make_python_task(config);
  for (const TaskEntry& entry : table()) {
    if (config.name != entry.name) continue;
    std::unique_ptr<Task> task = entry.make(TaskParams(entry.settings(), config.params, !config.verifier.empty()));
    if (!entry.splits_checked) require_both_splits(*task, "task.params");
    return task;
  }
  throw ConfigError(unknown_name(config.name));
}

std::vector<TaskInfo> list_tasks() {
  std::vector<TaskInfo> infos;
  for (const TaskEntry& entry : table()) {
    TaskInfo info{.name = entry.name, .description = entry.description, .parameters = {}};
    for (const Setting& setting : entry.settings())
      info.parameters.push_back(info_of(setting, std::string(setting.key), default_text(setting)));
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace troupe
