#pragma once
// JoinedTicks: processor time of processes of this machine that take part in the run and were not started by it. One
// thread.

#include <sys/types.h>

#include <map>
#include <set>

#include "runtime/base/run_ticks.h"

namespace troupe {

class JoinedTicks {
 public:
  // From the next call of ticks() on, these processes count and no others. What the others have used stays in the sum.
  void count(const std::set<pid_t>& processes);
  // Sums over all processes that count or have counted, each while it did, with those that descend from it. Leaves out
  // and adds to `counted` as ticks_of(). Neither number ever falls.
  RunTicks ticks(std::set<pid_t>& counted);

 private:
  struct Process {
    bool begun = false;
    RunTicks last;  // the most so far
  };

  RunTicks sum_;
  std::map<pid_t, Process> processes_;
};

}  // namespace troupe
