#pragma once
// RunList: the runs in some folders, read again when their files have changed. One thread at a time.

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/run_folder/run_overview.h"
#include "tools/cli/flags.h"
#include "tools/cli/run_details.h"

namespace troupe {

struct ServedRun {
  RunOverview run;
  SettingValues differs;   // from the other runs of its name
  std::string bottleneck;  // this and `alarms` as bottleneck_of_run() and alarms_of_run() have them
  RunAlarms alarms;
  bool deleted = false;  // its folder is gone; the rest is what it was
};

class RunList {
 public:
  using Clock = std::chrono::steady_clock;

  // A folder of a run is that run, another one stands for the runs in it and in its folders, as for find_runs()
  // (tools/cli/found_runs.h). Throws ConfigError when one is missing.
  explicit RunList(Words folders);

  // Reads what has changed, unless it did that less than a second before `now`.
  void refresh(Clock::time_point now);
  // In the order of their folders.
  const std::vector<ServedRun>& runs() const { return runs_; }
  // How often the runs have changed.
  uint64_t changes() const { return changes_; }
  // A line for each folder that cannot be used.
  const Words& problems() const { return problems_; }
  // Null if the list has no run in this folder.
  const ServedRun* find(const std::string& folder) const;

 private:
  struct Known {
    std::string signature;  // of its files
    RunOverview run;
    std::string bottleneck;
    RunAlarms alarms;
    bool there = false;
  };

  Words candidates();
  void look_at(const std::string& folder, const HeldLocks& held);
  void collect();

  Words folders_;
  Clock::time_point next_{};
  std::map<std::string, Known> known_;
  Words order_;  // of the folders in known_
  bool changed_ = false;
  uint64_t changes_ = 0;
  std::vector<ServedRun> runs_;
  Words problems_;
};

}  // namespace troupe
