#pragma once
// A run as the entry of a list, JSON: what `troupe runs --json` prints and `troupe dash` serves. Pure function; any
// thread.

#include <nlohmann/json_fwd.hpp>

#include "runtime/run_folder/run_overview.h"

namespace troupe {

// `differs`: the settings in which it differs from the other runs of its name.
nlohmann::ordered_json run_json(const RunOverview& run, const SettingValues& differs);

}  // namespace troupe
