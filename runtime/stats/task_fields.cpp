// The part of snapshot_fields() about the tasks of episodes.

#include <array>

#include "runtime/stats/field_access.h"

namespace troupe {
namespace {

template <auto member>
constexpr FieldAccess of_tasks = of_part<&StatsSnapshot::tasks, member>;

constexpr const char* kTasks = "Tasks";
constexpr const char* kWhen = "always; empty unless episodes have tasks";

constexpr std::array kTaskFields = {
    SnapshotField{kTasks, "tasks.return_mean", "task_return_mean{task=*}", "rewards, by task", kWhen,
                  "mean return of the newest episodes of each task of the environment, of each as many as "
                  "`episodes.return_mean` is of; in token runs, of the answers to prompts with each `data_source`; at "
                  "most 32 tasks, of which `other` has the rest",
                  of_tasks<&TaskFigures::return_mean>, shown("return", "reward", Better::up)},
    SnapshotField{kTasks, "tasks.length_mean", "task_length_mean_steps{task=*}",
                  "env steps, by task; tokens in token runs", kWhen, "mean length of the same episodes",
                  of_tasks<&TaskFigures::length_mean>, shown("length")},
    SnapshotField{kTasks, "tasks.success_rate", "task_success_ratio{task=*}", "0 to 1, by task", kWhen,
                  "share of the same episodes that the environment calls a success, if it reports success",
                  of_tasks<&TaskFigures::success_rate>, shown("success", "right", Better::up)},
};

}  // namespace

std::span<const SnapshotField> task_fields() { return kTaskFields; }

}  // namespace troupe
