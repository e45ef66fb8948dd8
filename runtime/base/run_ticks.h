#pragma once
// Processor time of this process and of those that it has started. Any thread.

#include <sys/types.h>

#include <cstdint>
#include <set>

namespace troupe {

// In the ticks of machine_ticks(), of this process and those that descend from it and still run. 0 if the system does
// not report it. Both may fall.
struct RunTicks {
  // Since this process started, with those of processes that were waited for. The time of others may be missing.
  uint64_t used = 0;
  // In which threads that still exist could have run but waited for a processor, summed over them.
  uint64_t waited = 0;
};

RunTicks run_ticks();
// The same of another process of this machine; zeros if there is none. Leaves out the processes in `counted`, with
// those that descend from them, and adds the others to it.
RunTicks ticks_of(pid_t process, std::set<pid_t>& counted);

}  // namespace troupe
