// What a worker reports: its counts, how long it has waited, and whether its environments fail.

#include <algorithm>
#include <utility>

#include "actors/worker_core.h"

namespace troupe {

void WorkerCore::end_wait(std::optional<std::chrono::steady_clock::time_point>& since, std::chrono::nanoseconds& sum) {
  if (since) sum += std::chrono::steady_clock::now() - *since;
  since.reset();
}

uint32_t WorkerCore::beats_without_answer() const {
  uint32_t most = 0;
  for (const auto& group : groups_) most = std::max(most, group->retry.silent_beats());
  return most >= RequestRetry::kSilence ? most : 0;
}

std::optional<std::string> WorkerCore::failing() const {
  bool any = false;
  // A group that has started well and had no credit yet may make steps, so those that did not start do not count.
  const bool one_may_step =
      std::ranges::any_of(groups_, [](const auto& group) { return !group->start_failed && !group->began; });
  for (const auto& group : groups_) {
    const bool has_work = group->running || group->closing || group->parked || group->outstanding != 0 ||
                          (group->start_failed && !one_may_step);
    if (!has_work) continue;
    const bool all_fail = group->start_failed || group->retry.is_failing() ||
                          std::ranges::all_of(group->failures, [](uint32_t failures) { return failures > 0; });
    if (!all_fail && group->running) return std::nullopt;
    any |= all_fail;
  }
  return any ? std::optional(report_.last_error) : std::nullopt;
}

WorkerReport WorkerCore::report() const {
  WorkerReport result = report_;
  std::chrono::nanoseconds credit_wait = credit_wait_, action_wait = action_wait_;
  for (const auto& group : groups_) {  // waits that have not ended
    auto without_credit = group->without_credit, asked = group->asked;
    end_wait(without_credit, credit_wait);
    end_wait(asked, action_wait);
  }
  const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<uint64_t>(time.count() / 1000); };
  result.step_us = microseconds(stepping_);
  result.credit_wait_us = microseconds(credit_wait) / groups_.size();
  result.action_wait_us = microseconds(action_wait) / groups_.size();
  for (const auto& group : groups_) {
    result.quarantined += static_cast<uint64_t>(group->quarantined);
    for (const RolloutWriter* writer : {group->closing.get(), group->running ? group->current.get() : nullptr})
      if (writer != nullptr)
        result.partial.push_back({group->id, writer->samples(), writer->env_steps(), writer->episodes()});
  }
  return result;
}

}  // namespace troupe
