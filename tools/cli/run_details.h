#pragma once
// What a list of runs shows beside their overviews, from the folder of a run. Plain functions; any thread.

#include <compare>
#include <cstddef>
#include <map>
#include <string>

#include "runtime/base/file.h"
#include "runtime/run_folder/run_overview.h"
#include "runtime/stats/alarms.h"

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

// The alarms that records of the run have, all starts included, by name, each with the worst level it had. Those of the
// last 16 MiB of its records; none if these cannot be read.
using AlarmLevels = std::map<std::string, AlarmLevel>;
AlarmLevels raised_alarms(const Disk& disk, const std::string& folder);
// Those that the newest record has.
AlarmLevels standing_alarms(const Record& last);

// Errors count more than warnings.
struct AlarmCounts {
  size_t errors = 0, warnings = 0;
  auto operator<=>(const AlarmCounts&) const = default;
};
AlarmCounts count_of(const AlarmLevels& alarms);
// "1 error, 3 warnings"; empty without any.
std::string text_of(const AlarmCounts& counts);

}  // namespace troupe
