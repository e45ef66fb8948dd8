#pragma once
// The alarms that the records of a run have: what is known of those of a run that has no alarms.json
// (runtime/run_folder/alarm_file.h). Plain functions; any thread.

#include <map>
#include <string>

#include "runtime/base/file.h"
#include "runtime/run_folder/run_records.h"
#include "runtime/stats/alarms.h"

namespace troupe {

// By name.
using AlarmLevels = std::map<std::string, AlarmLevel>;

// Adds an alarm, or raises the level of one that is there.
void add_worst(const std::string& name, AlarmLevel level, AlarmLevels& alarms);

// Each with the worst level it had, all starts included: those of the last 16 MiB of the records, or as far as these
// can be read.
AlarmLevels alarms_in_records(const Disk& disk, const std::string& folder);
// Those that a record has.
AlarmLevels alarms_in(const Record& record);

}  // namespace troupe
