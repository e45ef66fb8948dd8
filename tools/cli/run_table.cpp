#include "tools/cli/run_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/found_runs.h"
#include "tools/cli/run_details.h"
#include "tools/cli/text_table.h"

namespace troupe {

namespace {

std::string count_text(double value) {
  return value >= 0 && value < 0x1p63 ? format_short(static_cast<uint64_t>(std::llround(value))) : "-";
}

std::string score_text(const std::optional<RunScore>& score) {
  if (!score) return "-";
  return (score->evaluation ? "eval " : "train ") + format_figure(score->mean, 2) +
         (std::isnan(score->spread) ? "" : " +- " + format_figure(score->spread, 2));
}

std::string best_text(const ListedRun& each) { return each.run.best ? format_figure(each.run.best->mean, 2) : ""; }

std::string tags_text(const ListedRun& each) {
  std::string text;
  for (const std::string& tag : each.run.about.tags) text += (text.empty() ? "" : ",") + printable(tag, 200);
  return text;
}

// "1 error, 2 warnings"; empty without alarms.
std::string alarms_text(const ListedRun& each) {
  const AlarmCounts counts = alarms_of(each.run.last);
  std::string text = counts.errors == 0 ? "" : format_counted(counts.errors, "error");
  if (counts.warnings > 0) text += (text.empty() ? "" : ", ") + format_counted(counts.warnings, "warning");
  return text;
}

// A column, and its cell of a run.
struct RunColumn {
  TableColumn column;
  std::function<std::string(const ListedRun&)> cell;
  bool optional = false;  // left out if all its cells are empty; "-" where others are not
};

std::vector<RunColumn> columns_for(std::span<const ListedRun> runs, const std::string& sort) {
  const auto tokens = [](const ListedRun& each) { return each.run.tokens; };
  const bool answers = std::ranges::any_of(runs, tokens);
  const bool environments = runs.empty() || !std::ranges::all_of(runs, tokens);
  const auto text = [](std::string RunOverview::* member, size_t limit) {
    return [=](const ListedRun& each) { return printable(each.run.*member, limit); };
  };
  std::vector<RunColumn> columns = {
      {{"run", false, 16}, text(&RunOverview::folder, SIZE_MAX)},
      {{"name", false, 8}, [](const ListedRun& each) { return printable(each.run.about.name, 200); }, true},
      {{"config", false, 8, 3}, text(&RunOverview::name, SIZE_MAX)},
      {{"state"}, [](const ListedRun& each) { return std::string(text_of(each.run.state)); }},
      {{std::string(steps_word(environments, answers)), true},
       [](const ListedRun& each) { return count_text(each.run.env_steps); }},
      {{"score"}, [](const ListedRun& each) { return score_text(each.run.score); }},
      {{"best", true, 0, 7}, best_text, true},
      {{std::string(speed_word(environments, answers)), true, 0, 8},
       [](const ListedRun& each) { return count_text(each.run.mean_speed); }},
      {{"bottleneck", false, 8, 5}, [](const ListedRun& each) { return printable(each.bottleneck, 200); }, true},
      {{"alarms", false, 7, 6}, alarms_text, true},
      {{"differs", false, 16, 2}, [](const ListedRun& each) { return settings_text(each.differs); }},
      {{"tags", false, 8, 4}, tags_text, true},
      {{"reason", false, 12, 1}, text(&RunOverview::reason, 200)}};
  constexpr std::ptrdiff_t kAfterScore = 6;
  if (!sort.empty() && !is_usual_column(sort))
    columns.insert(columns.begin() + kAfterScore,
                   {{printable(sort, 200), true}, [&](const ListedRun& each) { return key_text(sort, each.key); }});
  return columns;
}

}  // namespace

std::string run_table(std::span<const ListedRun> runs, const std::string& sort, size_t width) {
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string>> rows(runs.size());
  for (RunColumn& each : columns_for(runs, sort)) {
    std::vector<std::string> cells;
    for (const ListedRun& run : runs) cells.push_back(each.cell(run));
    if (each.optional && std::ranges::all_of(cells, &std::string::empty)) continue;
    columns.push_back(std::move(each.column));
    for (size_t i = 0; i < runs.size(); ++i)
      rows[i].push_back(each.optional && cells[i].empty() ? "-" : std::move(cells[i]));
  }
  return text_table(std::move(columns), std::move(rows), width);
}

}  // namespace troupe
