#pragma once
// MachineUse: how busy the processors of the trainer's machine are, with whichever program, and with the run. Owned by
// stats; one thread.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "actors/rate.h"
#include "runtime/base/process_stats.h"
#include "runtime/base/run_ticks.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class MachineUse {
 public:
  // Fills the shares of the time before `now` of that length.
  void fill(BusyShares& shares, Rate::Clock::time_point now, std::chrono::seconds length) {
    const MachineTicks ticks = machine_ticks();
    busy_.add(now, ticks.busy);
    total_.add(now, ticks.total);
    count_run();
    run_.add(now, most_);
    waited_.add(now, most_waited_);
    const double total = total_.over(now, length);
    shares.machine = busy_.over(now, length) / total;
    shares.run = std::min(run_.over(now, length) / total, shares.machine);
    if (most_waited_ == 0) return;
    shares.waiting = waited_.over(now, length) / total;
    shares.threads_waiting = waited_.over(now, length) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

 private:
  // Reads the files of all threads, so not with every snapshot: simulated runs, whose time passes fast, make many.
  void count_run() {
    const auto now = std::chrono::steady_clock::now();
    if (most_ > 0 && now - counted_ < std::chrono::milliseconds(200)) return;
    counted_ = now;
    const RunTicks ticks = run_ticks();
    most_ = std::max(most_, ticks.used);  // the time of processes may be lost with the one that has started them
    most_waited_ = std::max(most_waited_, ticks.waited);
  }

  Rate busy_, total_, run_, waited_;
  uint64_t most_ = 0, most_waited_ = 0;  // ticks of the run: that it used, and that its threads waited for
  std::chrono::steady_clock::time_point counted_;
};

}  // namespace troupe
