#include "runtime/base/joined_ticks.h"

#include <algorithm>

namespace troupe {

void JoinedTicks::count(const std::set<pid_t>& processes) {
  std::erase_if(processes_, [&](const auto& known) { return !processes.contains(known.first); });
  for (const pid_t process : processes) processes_.try_emplace(process);
}

RunTicks JoinedTicks::ticks(std::set<pid_t>& counted) {
  for (auto& [id, process] : processes_) {
    const RunTicks now = ticks_of(id, counted);
    if (!process.begun) process = {true, now};
    // A process that has ended has no ticks, and the threads of one that goes on may end.
    const RunTicks most{std::max(now.used, process.last.used), std::max(now.waited, process.last.waited)};
    sum_.used += most.used - process.last.used;
    sum_.waited += most.waited - process.last.waited;
    process.last = most;
  }
  return sum_;
}

}  // namespace troupe
