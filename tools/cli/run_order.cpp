#include "tools/cli/run_order.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>

#include "models/learning/run_figures.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/figure_names.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

struct SortName {
  const char* name;
  bool usual_column;
  SortKey (*key)(const ListedRun&);
};

constexpr SortName kSortNames[] = {
    {"run", true, [](const ListedRun& each) { return SortKey(each.run.folder); }},
    {"config", true, [](const ListedRun& each) { return SortKey(each.run.name); }},
    {"state", true, [](const ListedRun& each) { return SortKey(std::string(text_of(each.run.state))); }},
    {"score", true,
     [](const ListedRun& each) { return SortKey(each.run.score ? each.run.score->mean : RunOverview::kNone); }},
    {"speed", true, [](const ListedRun& each) { return SortKey(each.run.mean_speed); }},
    {"env_steps", true, [](const ListedRun& each) { return SortKey(each.run.env_steps); }},
    {"alarms", true, [](const ListedRun& each) { return SortKey(count_of(each.alarms.raised)); }},
    {"bottleneck", true, [](const ListedRun& each) { return SortKey(each.bottleneck); }},
    {"updates", false, [](const ListedRun& each) { return SortKey(each.run.updates); }},
    {"seconds", false, [](const ListedRun& each) { return SortKey(each.run.seconds); }},
    {"changed", false, [](const ListedRun& each) { return SortKey(static_cast<double>(each.run.changed)); }},
};

const SortName* own_name(std::string_view text) {
  const auto found =
      std::ranges::find(kSortNames, text, [](const SortName& each) { return std::string_view(each.name); });
  return found == std::ranges::end(kSortNames) ? nullptr : found;
}

bool is_known(const SortKey& key) {
  if (const auto* text = std::get_if<std::string>(&key)) return !text->empty();
  const double* number = std::get_if<double>(&key);
  return number == nullptr || !std::isnan(*number);
}

// Of a run without records there are none.
Record newest_evaluation(const Disk& disk, const std::string& folder) {
  return disk.exists(metrics_file(folder)) ? read_last_records(disk, folder, true).evaluated : Record();
}

// The value of a figure.
double figure_of(const Disk& disk, const ListedRun& each, const std::string& path) {
  if (path == "bottleneck.share" && !std::isnan(each.run.verdict_share)) return each.run.verdict_share;
  const bool evaluation = path.starts_with("eval.");
  return figure_at(evaluation ? newest_evaluation(disk, each.run.folder) : each.run.last, path);
}

// What no run has: an entry that none ever had, or a figure without a value yet.
std::string missing_everywhere(const std::string& sort, std::span<const ListedRun> runs) {
  if (find_figure(sort) != nullptr) return "--sort: " + sort + ": no run has a value of it";
  const std::string figure = sort.substr(0, sort.rfind('.') + 1);
  std::set<std::string> entries;
  for (const ListedRun& each : runs)
    for (auto entry = each.run.last.lower_bound(figure); entry != each.run.last.end(); ++entry) {
      if (!entry->first.starts_with(figure)) break;
      entries.insert(entry->first);
    }
  const std::string near = did_you_mean(sort, {entries.begin(), entries.end()});
  refuse_flag("--sort", printable(sort) + ": no run has this entry" + (near.empty() ? "" : ", " + near));
}

// "2026-11-27 16:57", local time.
std::string time_text(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  char text[32] = "-";
  if (::localtime_r(&time, &local) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

}  // namespace

std::string parse_sort(std::string_view flag, const std::string& text) {
  if (own_name(text) != nullptr) return text;
  Words names;
  for (const SortName& each : kSortNames) names.emplace_back(each.name);
  return parse_figure(flag, text, names);
}

std::string set_keys(const Disk& disk, const std::string& sort, std::span<ListedRun> runs) {
  const SortName* own = own_name(sort);
  for (ListedRun& each : runs) each.key = own != nullptr ? own->key(each) : SortKey(figure_of(disk, each, sort));
  if (own != nullptr || std::ranges::any_of(runs, is_known, &ListedRun::key)) return "";
  return missing_everywhere(sort, runs);
}

void sort_by_key(std::vector<ListedRun>& runs, bool reverse) {
  std::ranges::stable_sort(runs, [&](const ListedRun& a, const ListedRun& b) {
    if (!is_known(a.key) || !is_known(b.key)) return is_known(a.key) && !is_known(b.key);
    const bool is_text = std::holds_alternative<std::string>(a.key);
    return is_text == reverse ? b.key < a.key : a.key < b.key;
  });
}

bool is_usual_column(std::string_view sort) {
  const SortName* own = own_name(sort);
  return own != nullptr && own->usual_column;
}

std::string key_text(const std::string& sort, const SortKey& key) {
  if (const auto* text = std::get_if<std::string>(&key)) return printable(*text, SIZE_MAX);
  if (const auto* alarms = std::get_if<AlarmCounts>(&key)) return text_of(*alarms);
  const double value = std::get<double>(key);
  if (std::isnan(value)) return "-";
  if (sort == "changed") return time_text(value);
  if (sort == "seconds") return format_seconds(value);
  const Figure* figure = find_figure(sort);
  return figure_text(value, figure == nullptr ? "" : figure->unit);
}

}  // namespace troupe
