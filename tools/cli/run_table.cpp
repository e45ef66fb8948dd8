#include "tools/cli/run_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/json_scan.h"
#include "tools/cli/found_runs.h"
#include "tools/cli/run_details.h"
#include "tools/cli/sweep_points.h"
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

std::string alarms_text(const ListedRun& each) { return text_of(count_of(each.alarms.raised)); }

// A column, and its cell of a run.
struct RunColumn {
  TableColumn column;
  std::function<std::string(const ListedRun&)> cell;
  bool optional = false;  // left out if all its cells are empty; "-" where others are not
};

// Whether the name of the folder says in what its run differs, as those of `troupe sweep` do.
bool is_in_name(const ListedRun& each) {
  const std::string folder = each.run.folder.substr(each.run.folder.rfind('/') + 1);
  return std::ranges::all_of(each.differs, [&](const auto& setting) {
    const auto& [path, value] = setting;
    return folder.find(path.substr(path.rfind('.') + 1) + '=' + in_folder_name(scalar_text(value))) != folder.npos;
  });
}

// Those beside what each run is called, the more important the higher its `left_out_as`.
std::vector<RunColumn> figure_columns(std::span<const ListedRun> runs) {
  const auto tokens = [](const ListedRun& each) { return each.run.tokens; };
  const bool answers = std::ranges::any_of(runs, tokens);
  const bool environments = runs.empty() || !std::ranges::all_of(runs, tokens);
  return {{{"state"}, [](const ListedRun& each) { return std::string(text_of(each.run.state)); }},
          {{"alarms", false, 0, 9}, alarms_text, true},
          {{std::string(steps_word(environments, answers)), true, 0, 8},
           [](const ListedRun& each) { return count_text(each.run.env_steps); }},
          {{"score"}, [](const ListedRun& each) { return score_text(each.run.score); }},
          {{"best", true, 0, 5}, best_text, true},
          {{std::string(speed_word(environments, answers)), true, 0, 7},
           [](const ListedRun& each) { return count_text(each.run.mean_speed); }},
          {{"bottleneck", false, 24, 6}, [](const ListedRun& each) { return printable(each.bottleneck, 200); }, true}};
}

std::vector<RunColumn> columns_for(std::span<const ListedRun> runs, const std::string& sort) {
  const auto text = [](std::string RunOverview::* member, size_t limit) {
    return [=](const ListedRun& each) { return printable(each.run.*member, limit); };
  };
  const int differs = std::ranges::all_of(runs, is_in_name) ? 3 : 10;
  std::vector<RunColumn> columns = {
      {{"run", false, 16, 0, true}, text(&RunOverview::folder, SIZE_MAX)},
      {{"name", false, 8, 11, true}, [](const ListedRun& each) { return printable(each.run.about.name, 200); }, true},
      {{"differs", false, 16, differs, true}, [](const ListedRun& each) { return settings_text(each.differs); }},
      {{"config", false, 8, 2}, text(&RunOverview::name, SIZE_MAX)}};
  for (RunColumn& each : figure_columns(runs)) columns.push_back(std::move(each));
  const auto is_nan = [](const ListedRun& each) {
    const double* number = std::get_if<double>(&each.key);
    return number != nullptr && std::isnan(*number);
  };
  if (!sort.empty() && !is_usual_column(sort) && !std::ranges::all_of(runs, is_nan)) {
    const auto score = std::ranges::find(columns, "score", [](const RunColumn& each) { return each.column.title; });
    columns.insert(score + 1,
                   {{printable(sort, 200), true}, [&](const ListedRun& each) { return key_text(sort, each.key); }});
  }
  columns.push_back({{"tags", false, 8, 4}, tags_text, true});
  columns.push_back({{"reason", false, 12, 1}, text(&RunOverview::reason, 200)});
  return columns;
}

// The folder that all cells begin with, up to its "/"; empty without one.
std::string common_folder(std::span<const std::vector<std::string>> rows) {
  if (rows.size() < 2) return "";
  std::string_view common = rows.front().front();
  for (const std::vector<std::string>& row : rows) {
    const auto end = std::ranges::mismatch(common, row.front()).in1;
    common = common.substr(0, static_cast<size_t>(end - common.begin()));
  }
  return std::string(common.substr(0, common.rfind('/') + 1));
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
  if (table_width(columns, rows) <= width) return text_table(std::move(columns), std::move(rows), width);
  const std::string common = common_folder(rows);
  for (std::vector<std::string>& row : rows) row.front().erase(0, common.size());
  std::string table = text_table(std::move(columns), std::move(rows), width);
  if (common.empty()) return table;
  for (const std::string& line : wrapped("the runs are in " + common, width)) table += line + '\n';
  return table;
}

}  // namespace troupe
