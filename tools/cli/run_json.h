#pragma once
// A run as the entry of a list, JSON: what `troupe runs --json` prints and `troupe dash` serves. Pure functions; any
// thread.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/run_folder/run_overview.h"
#include "tools/cli/run_details.h"

namespace troupe {

// `differs`: the settings in which it differs from the other runs of its name; `bottleneck` and `alarms` as
// bottleneck_of_run() and alarms_of_run() have them.
nlohmann::ordered_json run_json(const RunOverview& run, const SettingValues& differs, const std::string& bottleneck,
                                const RunAlarms& alarms);
// The "alarms" of the same.
nlohmann::ordered_json alarms_json(const RunAlarms& alarms);
nlohmann::ordered_json counts_json(const AlarmCounts& counts);

}  // namespace troupe
