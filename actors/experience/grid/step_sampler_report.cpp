// What a worker reports of its environments: what partial rollouts hold, and whether all environments fail.

#include <algorithm>
#include <utility>

#include "actors/experience/grid/step_sampler.h"

namespace troupe {

std::optional<std::string> StepSampler::failing() const {
  bool any = false;
  // A group that has started well and had no credit yet may make steps, so those that did not start do not count.
  const bool one_may_step =
      std::ranges::any_of(groups_, [](const auto& group) { return !group->start_failed && !group->began; });
  for (const auto& group : groups_) {
    const bool has_work = group->running || group->closing || group->parked || is_asking(group->id) ||
                          (group->start_failed && !one_may_step);
    if (!has_work) continue;
    const bool all_fail = group->start_failed || inference_fails(group->id) ||
                          std::ranges::all_of(group->failures, [](uint32_t failures) { return failures > 0; });
    if (!all_fail && group->running) return std::nullopt;
    any |= all_fail;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

void StepSampler::add_to(WorkerReport& report) const {
  for (const auto& group : groups_) {
    report.quarantined += static_cast<uint64_t>(group->quarantined);
    for (const RolloutWriter* writer : {group->closing.get(), group->running ? group->current.get() : nullptr})
      if (writer != nullptr)
        report.partial.push_back({group->id, writer->samples(), writer->env_steps(), writer->episodes()});
  }
}

}  // namespace troupe
