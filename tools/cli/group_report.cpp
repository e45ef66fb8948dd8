#include "tools/cli/group_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/curve_statistics.h"
#include "tools/cli/text_table.h"

namespace troupe {

namespace {

using OrderedJson = nlohmann::ordered_json;

bool has_interval(const GroupFigure& figure) { return !std::isnan(figure.low); }

// "480.12 [470.00, 490.00]"; how many runs have the figure, where not all do.
std::string figure_text(const GroupFigure& figure, size_t runs) {
  if (figure.runs == 0) return "-";
  std::string text = format_figure(figure.mean, 2);
  if (has_interval(figure)) text += " [" + format_figure(figure.low, 2) + ", " + format_figure(figure.high, 2) + ']';
  return figure.runs == runs ? text : text + " of " + format_counted(figure.runs, "run");
}

std::string speed_text(const GroupFigure& figure) {
  return figure.runs == 0 ? "-" : format_short(static_cast<uint64_t>(std::llround(std::max(figure.mean, 0.0))));
}

std::string rows_of(std::span<const RankedGroup> groups, bool tasks, size_t width) {
  const bool environments = std::ranges::any_of(groups, std::logical_not<>(), &RankedGroup::tokens);
  const bool answers = std::ranges::any_of(groups, &RankedGroup::tokens);
  std::vector<TableColumn> columns = {{"task", false, 8},
                                      {"group", false, 16, 0, true},
                                      {"runs", true},
                                      {"finished", true, 0, 2},
                                      {"evaluation"},
                                      {"training return", false, 0, 3},
                                      {std::string(speed_word(environments, answers)), true, 0, 1}};
  std::vector<std::vector<std::string>> rows;
  for (const RankedGroup& each : groups) {
    const size_t runs = each.group.runs.size();
    rows.push_back({printable(each.task, SIZE_MAX), each.group.label, format_count(runs), format_count(each.finished),
                    figure_text(each.evaluation, runs), figure_text(each.training, runs), speed_text(each.speed)});
  }
  if (!tasks) {
    columns.erase(columns.begin());
    for (auto& row : rows) row.erase(row.begin());
  }
  return text_table(std::move(columns), std::move(rows), width);
}

// "trainer.policy_lr=0.001, evaluation 480.12 [470.00, 490.00] over 3 runs".
std::string described(const RankedGroup& group, bool evaluated) {
  const GroupFigure& score = group.score(evaluated);
  return group.group.label + ", " + (evaluated ? "evaluation " : "training return ") + figure_text(score, score.runs) +
         " over " + format_counted(score.runs, "run");
}

// What the intervals of the two best groups say about their order.
std::string doubt(const GroupFigure& best, const GroupFigure& next) {
  if (!has_interval(best) || !has_interval(next)) return "one run has no interval: more seeds are needed";
  return best.low > next.high ? "the intervals do not overlap"
                              : "the intervals overlap: more seeds may change the order";
}

// "a, b and 2 more".
std::string names_of(std::span<const RankedGroup> groups) {
  constexpr size_t kNamed = 3;
  std::string names;
  for (size_t i = 0; i < std::min(groups.size(), kNamed); ++i) names += (i == 0 ? "" : ", ") + groups[i].group.label;
  return groups.size() <= kNamed ? names : names + " and " + std::to_string(groups.size() - kNamed) + " more";
}

// How many groups have the score of the first one.
size_t best_alike(std::span<const RankedGroup> groups, bool evaluated) {
  const double best = groups.front().score(evaluated).mean;
  size_t alike = 1;
  while (alike < groups.size() && groups[alike].score(evaluated).mean == best) ++alike;
  return alike;
}

// The line about the groups of one task, the best first; empty where none has a score.
std::string best_line(std::span<const RankedGroup> groups, bool tasks) {
  const bool evaluated = is_evaluated(groups, groups.front().task);
  const GroupFigure& best = groups.front().score(evaluated);
  if (best.runs == 0) return "";
  std::string line = "best";
  if (tasks) line += " of " + printable(groups.front().task, 200);
  if (const size_t alike = best_alike(groups, evaluated); alike > 1) {
    line += " are equal: " + names_of(groups.first(alike)) + ", " + (evaluated ? "evaluation " : "training return ") +
            format_figure(best.mean, 2);
    const bool more = alike < groups.size() && groups[alike].score(evaluated).runs > 0;
    return line + (more ? "; next: " + described(groups[alike], evaluated) : "") + '\n';
  }
  line += ": " + described(groups.front(), evaluated);
  if (groups.size() == 1 || groups[1].score(evaluated).runs == 0) return line + '\n';
  return line + "; next: " + described(groups[1], evaluated) + "; " + doubt(best, groups[1].score(evaluated)) + '\n';
}

OrderedJson json_of(const GroupFigure& figure) {
  return {{"mean", figure.mean}, {"low", figure.low}, {"high", figure.high}, {"runs", figure.runs}};
}

}  // namespace

std::string group_table(std::span<const RankedGroup> groups, size_t width) {
  std::set<std::string> tasks;
  size_t fewest = SIZE_MAX, most = 0;
  for (const RankedGroup& each : groups) {
    tasks.insert(each.task);
    fewest = std::min(fewest, each.group.runs.size());
    most = std::max(most, each.group.runs.size());
  }
  std::string text = rows_of(groups, tasks.size() > 1, width);
  for (size_t begin = 0; begin < groups.size();) {
    size_t end = begin;
    while (end < groups.size() && groups[end].task == groups[begin].task) ++end;
    text += best_line(groups.subspan(begin, end - begin), tasks.size() > 1);
    begin = end;
  }
  if (most < 2) return text;
  text += "figures: interquartile mean over the runs [95 % bootstrap interval]";
  return text + (fewest < kFirmRuns ? ", which is rough with fewer than 5 runs\n" : "\n");
}

OrderedJson groups_json(std::span<const RankedGroup> groups, const std::vector<RunOverview>& runs,
                        const Words& settings) {
  OrderedJson result = OrderedJson::array();
  for (const RankedGroup& each : groups) {
    OrderedJson values = OrderedJson::object(), folders = OrderedJson::array();
    for (const std::string& path : settings) {
      const SettingValues& of_run = runs[each.group.runs.front()].settings;
      const auto found = std::ranges::find(of_run, path, &std::pair<std::string, std::string>::first);
      values[path] = found == of_run.end() ? OrderedJson() : OrderedJson::parse(found->second, nullptr, false);
    }
    for (const size_t i : each.group.runs) folders.push_back(runs[i].folder);
    result.push_back({{"group", each.group.label},
                      {"settings", values},
                      {"task", each.task},
                      {"runs", folders},
                      {"finished", each.finished},
                      {"evaluation", json_of(each.evaluation)},
                      {"training", json_of(each.training)},
                      {"mean_env_steps_per_second", json_of(each.speed)}});
  }
  return result;
}

}  // namespace troupe
