#pragma once
// Processor time of this process and of those that it has started. Any thread.

#include <cstdint>

namespace troupe {

// In the ticks of machine_ticks(), since this process started; 0 if the system does not report it. Processes count that
// descend from this one and still run, and those that were waited for. The time of others may be missing, so that the
// sum may fall.
uint64_t run_ticks();

// In the same ticks: for how long threads of the same processes could have run and waited for a processor, summed over
// the threads that still exist; 0 if the system does not report it. The sum may fall.
uint64_t run_wait_ticks();

}  // namespace troupe
