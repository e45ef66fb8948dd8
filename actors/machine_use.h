#pragma once
// MachineUse: how busy the processors of the trainer's machine are, with whichever program, and with the run: this
// process, those that it has started, and those of this machine that have joined. Owned by stats; one thread.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "actors/rate.h"
#include "runtime/base/joined_ticks.h"
#include "runtime/base/process_stats.h"
#include "runtime/base/run_ticks.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class MachineUse {
 public:
  // A process of this machine has told something: it belongs to the run for a minute.
  void heard(pid_t process, Rate::Clock::time_point now) {
    if (heard_.contains(process) || is_of_this_program(process)) heard_[process] = now;
  }
  // Those of ranks, which tell nothing, belong to it until the next call.
  void set_ranks(const std::vector<pid_t>& processes) {
    ranks_.clear();
    std::ranges::copy_if(processes, std::inserter(ranks_, ranks_.end()), is_of_this_program);
  }
  const std::set<pid_t>& ranks() const { return ranks_; }
  // The shares are of the time from now on. They are unknown until the ticks have been read twice, which happens no
  // more than five times a second.
  void begin_anew() {
    busy_ = total_ = run_ = waited_ = {};
    counted_ = {};
  }
  // Fills the shares of the time before `now` of that length.
  void fill(BusyShares& shares, Rate::Clock::time_point now, std::chrono::seconds length) {
    count(now);
    busy_.add(now, machine_ticks_.busy);
    total_.add(now, machine_ticks_.total);
    run_.add(now, most_ + joined_ticks_.used);
    waited_.add(now, most_waited_ + joined_ticks_.waited);
    const double total = total_.over(now, length);
    shares.machine = busy_.over(now, length) / total;
    shares.run = std::min(run_.over(now, length) / total, shares.machine);
    if (most_waited_ == 0) return;
    shares.waiting = waited_.over(now, length) / total;
    shares.threads_waiting = waited_.over(now, length) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

 private:
  // Reads the files of all threads, so not with every snapshot: a run with short updates makes 100 a second.
  void count(Rate::Clock::time_point of) {
    const auto now = std::chrono::steady_clock::now();
    if (most_ > 0 && now - counted_ < std::chrono::milliseconds(200)) return;
    counted_ = now;
    machine_ticks_ = machine_ticks();
    std::set<pid_t> counted;
    const RunTicks own = ticks_of(getpid(), counted);
    most_ = std::max(most_, own.used);  // the time of processes may be lost with the one that has started them
    most_waited_ = std::max(most_waited_, own.waited);
    std::erase_if(heard_, [&](const auto& process) { return of - process.second > std::chrono::minutes(1); });
    std::set<pid_t> joined = ranks_;
    for (const auto& [process, last] : heard_) joined.insert(process);
    joined_.count(joined);
    joined_ticks_ = joined_.ticks(counted);
  }

  Rate busy_, total_, run_, waited_;
  MachineTicks machine_ticks_;
  uint64_t most_ = 0, most_waited_ = 0;  // ticks without those that have joined: used, and that threads waited for
  RunTicks joined_ticks_;
  JoinedTicks joined_;
  std::map<pid_t, Rate::Clock::time_point> heard_;
  std::set<pid_t> ranks_;
  std::chrono::steady_clock::time_point counted_;
};

}  // namespace troupe
