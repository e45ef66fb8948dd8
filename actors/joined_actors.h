#pragma once
// JoinedActors: how the actors of the processes that have joined a run spend their time, from the reports of these
// processes. Owned by stats; one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "actors/messages/process_report.h"
#include "actors/rate.h"
#include "runtime/stats/actor_board.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// What a process says of its actors. Any thread.
ProcessReport report_of(ActorBoard& board);

class JoinedActors {
 public:
  using Clock = Rate::Clock;

  // `process` is the same for all reports of a process, and of no other one. Returns why the report is dropped; nothing
  // when it counts.
  std::optional<std::string> add(const std::string& process, const ProcessReport& report, Clock::time_point now);
  // By kind, of the processes that are heard; nothing without one. The shares are of the time that the reports are
  // about, so that it does not matter when they come.
  std::optional<ActorTimes> times(Clock::time_point now);

 private:
  using Reports = std::map<std::string, ActorReport>;  // by kind
  struct Process {
    Reports actors;
    Clock::time_point at;
  };
  // Of a kind, in microseconds: that its actors lived, were busy, and of that were blocked.
  struct Kind {
    uint64_t lived_us = 0, busy_us = 0, blocked_us = 0;
    Rate lived, busy, blocked;
  };

  void add_times(const Process& before, const Reports& reports, Clock::time_point now);
  void forget_silent(Clock::time_point now);

  std::map<std::string, Kind> kinds_;
  std::map<std::string, Process> processes_;
};

}  // namespace troupe
