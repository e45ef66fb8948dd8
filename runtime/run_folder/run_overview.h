#pragma once
// What the folder of a run tells about it, for those who only read it: a run that has ended, that is under way, that
// was killed, or that an older version has made. Reads config.json, summary.json, best.json and the end of
// metrics.jsonl, and takes no lock. Plain functions; any thread.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/run_folder/run_about.h"
#include "runtime/run_folder/run_records.h"
#include "runtime/run_folder/run_state.h"

namespace troupe {

// The paths of settings and their values as compact JSON, in the order of the file.
using SettingValues = std::vector<std::pair<std::string, std::string>>;
// The settings in the text of a config.json. Throws ConfigError, which begins with `source`.
SettingValues settings_in(const std::string& config, const std::string& source);

// The mean return of an evaluation, or of the newest training episodes.
struct RunScore {
  double mean = 0;
  double spread = 0;  // standard deviation over its episodes; NaN if it is not known
  bool evaluation = false;
  uint64_t updates = 0;  // of the policy
};

struct RunOverview {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string folder, name, task;  // the setting `name`; its environment or task
  bool tokens = false;             // it trains on answers, which env_steps counts
  std::string config;              // the text of config.json
  SettingValues settings;
  RunAbout about;
  RunState state = RunState::crashed;
  std::string reason;  // of its end, or of what is known about it
  double env_steps = kNone, updates = kNone, seconds = kNone, env_steps_per_second = kNone;
  double mean_speed = kNone;  // filled in by find_runs() (tools/cli/found_runs.h)
  // Of a run that has ended: the verdict that held for longest in its last start, and its share of the time.
  std::string verdict;
  double verdict_share = kNone;
  std::optional<RunScore> score, best;
  std::optional<RunScore> trained;   // the newest training episodes
  Record last;                       // the numbers of the last record
  int64_t changed = 0;               // last change of metrics.jsonl or, without one, of config.json: seconds since 1970
  std::vector<std::string> damaged;  // see damaged_files()
};

// Throws ConfigError or IoError when the folder is not that of a run, or when its config cannot be read.
RunOverview read_overview(const Disk& disk, const std::string& folder, const HeldLocks& held);

// Whether the run is under way, and how one that is not has ended, as an overview says it. Throws IoError.
StateOfRun read_state(const Disk& disk, const std::string& folder, const HeldLocks& held);

// A line for each file that is damaged or cannot be read, and without which a run is shown: its path, what is wrong
// with it, and what is not known therefore.
std::vector<std::string> damaged_files(const Disk& disk, const std::string& folder);

// The settings in which the runs differ from the others of the same name, for each run, without `name`. Where a
// setting is missing in some of the configs, `upgrade` makes those of older versions complete. A setting that a run
// does not have is kNotSet (runtime/config/fixed_settings.h).
using Upgrade = std::function<std::string(const std::string& config)>;
std::vector<SettingValues> differing_settings(const std::vector<RunOverview>& runs, const Upgrade& upgrade);

}  // namespace troupe
