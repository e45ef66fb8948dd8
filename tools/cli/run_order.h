#pragma once
// What `troupe runs --sort` sorts by. Plain functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/run_folder/run_overview.h"
#include "tools/cli/flags.h"
#include "tools/cli/run_details.h"

namespace troupe {

// A number, which is NaN where it is not known, a text, or the alarms of a run.
using SortKey = std::variant<double, std::string, AlarmCounts>;

// A run, with the settings in which it differs from the others, and what the list shows and sorts by.
struct ListedRun {
  RunOverview run;
  SettingValues differs;
  std::string bottleneck;  // as bottleneck_of_run() says
  RunAlarms alarms = {};
  SortKey key = RunOverview::kNone;
};

// A reader of the flag's value. Throws ConfigError for what is neither a figure nor one of the names that only this
// command has.
std::string parse_sort(std::string_view flag, const std::string& text);

// Gives each run its key: of a figure the value in the newest record, of those of evaluations in the newest record with
// one, of bottleneck.share of a run that has ended the share of its verdict. Returns a line about a figure that no run
// has, else an empty one. Throws ConfigError for an entry of a figure that no run has; IoError.
std::string set_keys(const Disk& disk, const std::string& sort, std::span<ListedRun> runs);

// By their keys: the smallest text first, the largest number or the most alarms first, or in reverse; runs without a
// value come last.
void sort_by_key(std::vector<ListedRun>& runs, bool reverse);

// Whether the list shows what runs are sorted by in a column that it always has.
bool is_usual_column(std::string_view sort);
// A key as the cell of a column.
std::string key_text(const std::string& sort, const SortKey& key);

}  // namespace troupe
