#pragma once
// The groups of runs that `troupe runs --group` and `troupe sweep` rank, as a table and as JSON. Pure; any thread.

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/cli/run_groups.h"

namespace troupe {

// A line for each group, at most `width` columns wide; below them a line for each task that names the best group, and
// what the figures are.
std::string group_table(std::span<const RankedGroup> groups, size_t width);

// An array of the groups. `runs` are those that were grouped, `settings` those that they were grouped by.
nlohmann::ordered_json groups_json(std::span<const RankedGroup> groups, const std::vector<RunOverview>& runs,
                                   const Words& settings);

}  // namespace troupe
