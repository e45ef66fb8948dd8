#pragma once
// Processor time of this process and of those that it has started. Any thread.

#include <cstdint>

namespace troupe {

// In the ticks of machine_ticks(), of this process and those that descend from it and still run. 0 if the system does
// not report it. Both may fall.
struct RunTicks {
  uint64_t used = 0;  // since this process started, with those of processes that were waited for; others may be missing
  uint64_t waited =
      0;  // that threads which still exist could have run in, but waited for a processor, summed over them
};

RunTicks run_ticks();

}  // namespace troupe
