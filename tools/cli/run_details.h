#pragma once
// What a list of runs shows beside their overviews, from the folder of a run. Plain functions; any thread.

#include <compare>
#include <cstddef>
#include <optional>
#include <string>

#include "runtime/base/file.h"
#include "runtime/run_folder/alarm_records.h"
#include "runtime/run_folder/run_overview.h"

namespace troupe {

// Environment steps, or answers, per second from the first record with experience to `last`, the newest record, over
// all starts; the start-up before the first experience is left out. NaN where the records do not say it, as those of
// deterministic runs. Throws IoError.
double recorded_speed(const Disk& disk, const std::string& folder, const Record& last);
// The same of a run, or what its overview has where the records do not say it.
double mean_speed(const Disk& disk, const RunOverview& run);

// What limited a run: of one that has ended, the verdict that held for longest in its last start, with its share of the
// time, "few environments 71 %", as at the end of `troupe train`; of others that of the newest record, without a share.
// Empty where none names something.
std::string bottleneck_of_run(const Disk& disk, const RunOverview& run);

// The alarms that a run has had, all starts included, each with its worst level, and those of them that are raised now,
// or were when it ended or was killed.
struct RunAlarms {
  AlarmLevels raised, standing;
  friend bool operator==(const RunAlarms&, const RunAlarms&) = default;
};
// As its alarms.json says; nothing without one that can be read.
std::optional<RunAlarms> written_alarms(const Disk& disk, const std::string& folder);
// The same, or of a run of an older version those that its records have.
RunAlarms alarms_of_run(const Disk& disk, const RunOverview& run);

// Errors count more than warnings.
struct AlarmCounts {
  size_t errors = 0, warnings = 0;
  auto operator<=>(const AlarmCounts&) const = default;
};
AlarmCounts count_of(const AlarmLevels& alarms);
// "1 error, 3 warnings"; empty without any.
std::string text_of(const AlarmCounts& counts);

}  // namespace troupe
