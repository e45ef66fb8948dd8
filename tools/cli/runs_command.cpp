// `troupe runs`: lists the runs in folders: what each is, how far it is, and how good.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <set>
#include <variant>

#include <nlohmann/json.hpp>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/command.h"
#include "tools/cli/figure_names.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/found_runs.h"
#include "tools/cli/group_report.h"
#include "tools/cli/run_json.h"
#include "tools/cli/terminal.h"
#include "tools/cli/text_table.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kDefaultFolder = "runs";

struct RunsOptions {
  Words folders;
  std::string sort;
  Words group, tags;
  bool reverse = false, json = false;
};

// A run, with the settings in which it differs from the others.
struct ListedRun {
  RunOverview run;
  SettingValues differs;
};

// What runs are sorted by: the smallest text first, the largest number first; what is unknown comes last.
using SortKey = std::variant<double, std::string>;

struct SortName {
  const char* name;
  SortKey (*key)(const RunOverview&);
};

SortKey score_key(const RunOverview& run) { return run.score ? run.score->mean : RunOverview::kNone; }

constexpr SortName kSortNames[] = {
    {"run", [](const RunOverview& run) { return SortKey(run.folder); }},
    {"config", [](const RunOverview& run) { return SortKey(run.name); }},
    {"state", [](const RunOverview& run) { return SortKey(std::string(text_of(run.state))); }},
    {"score", score_key},
    {"seconds", [](const RunOverview& run) { return SortKey(run.seconds); }},
    {"changed", [](const RunOverview& run) { return SortKey(static_cast<double>(run.changed)); }},
    {"env_steps", [](const RunOverview& run) { return SortKey(run.env_steps); }},
    {"updates", [](const RunOverview& run) { return SortKey(run.updates); }},
    {"env_steps_per_second", [](const RunOverview& run) { return SortKey(run.env_steps_per_second); }},
};

std::string parse_sort(std::string_view flag, const std::string& text) {
  const bool ours = std::ranges::any_of(kSortNames, [&](const SortName& each) { return text == each.name; });
  Words names;
  for (const SortName& each : kSortNames) names.emplace_back(each.name);
  return ours ? text : parse_figure(flag, text, names);
}

RunsOptions read_runs(Flags& flags) {
  RunsOptions options;
  flags.arguments("DIR...", options.folders, "folders of runs, or folders that hold such folders (default: runs)");
  flags.option("--sort", "FIGURE", options.sort, parse_sort,
               "run, config, state, score, seconds, changed (the time of the newest record), or a figure that `troupe "
               "metrics` lists: the largest value of the newest records first (default: the order of the folders)");
  flags.repeatable("--group", "SETTING", options.group,
                   "rank the values of this setting instead: a line for all runs with the same value, the best first, "
                   "with the interquartile mean of their scores and its 95 % bootstrap interval; repeatable, for "
                   "combinations of values");
  flags.repeatable("--tag", "TAG", options.tags,
                   "list only runs with this tag of `troupe train --tag`; repeatable: with all");
  flags.toggle("--reverse", options.reverse, "list them in reverse order");
  flags.toggle("--json", options.json, "print JSON");
  flags.read();
  if (!options.group.empty() && (!options.sort.empty() || options.reverse))
    flags.refuse(std::string(options.reverse ? "--reverse" : "--sort") +
                 ": has no effect with --group, which lists the best group first; leave it out");
  for (const std::string& folder : options.folders) path_to("a folder")("DIR", folder);
  if (options.folders.empty()) options.folders = {kDefaultFolder};
  return options;
}

SortKey key_of(const RunOverview& run, const std::string& figure) {
  for (const SortName& each : kSortNames)
    if (figure == each.name) return each.key(run);
  const auto found = run.last.find(figure);
  return found == run.last.end() ? RunOverview::kNone : found->second;
}

bool comes_before(const SortKey& a, const SortKey& b) {
  if (const auto* text = std::get_if<std::string>(&a)) return *text < std::get<std::string>(b);
  const double x = std::get<double>(a), y = std::get<double>(b);
  return std::isnan(y) ? !std::isnan(x) : x > y;
}

void sort_runs(std::vector<ListedRun>& runs, const RunsOptions& options) {
  if (!options.sort.empty())
    std::ranges::stable_sort(runs, comes_before, [&](const ListedRun& each) { return key_of(each.run, options.sort); });
  if (options.reverse) std::ranges::reverse(runs);
}

std::string count_text(double value) {
  return value >= 0 && value < 0x1p63 ? format_short(static_cast<uint64_t>(std::llround(value))) : "-";
}

std::string score_text(const std::optional<RunScore>& score) {
  if (!score) return "-";
  return (score->evaluation ? "eval " : "train ") + format_figure(score->mean, 2) +
         (std::isnan(score->spread) ? "" : " +- " + format_figure(score->spread, 2));
}

std::string tags_text(const RunAbout& about) {
  std::string text;
  for (const std::string& tag : about.tags) text += (text.empty() ? "" : ",") + printable(tag, 200);
  return text;
}

size_t columns_of_output() { return isatty(STDOUT_FILENO) != 0 ? terminal_size().columns : line_columns(); }

void print_table(const std::vector<ListedRun>& runs) {
  const bool answers = std::ranges::all_of(runs, &RunOverview::tokens, &ListedRun::run) && !runs.empty();
  const bool steps = std::ranges::none_of(runs, &RunOverview::tokens, &ListedRun::run);
  const auto any = [&](const auto& has) { return std::ranges::any_of(runs, has, &ListedRun::run); };
  const bool ranked = any([](const RunOverview& run) { return run.best.has_value(); });
  const bool named = any([](const RunOverview& run) { return !run.about.name.empty(); });
  const bool tagged = any([](const RunOverview& run) { return !run.about.tags.empty(); });
  std::vector<TableColumn> columns = {{"run", false, 16},
                                      {"name", false, 8},
                                      {"config", false, 8, 3},
                                      {"state"},
                                      {std::string(steps_word(!answers, !steps)), true},
                                      {"score"},
                                      {"best", true, 0, 5},
                                      {std::string(speed_word(!answers, !steps)), true, 0, 6},
                                      {"differs", false, 16, 2},
                                      {"tags", false, 8, 4},
                                      {"reason", false, 12, 1}};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [run, differs] : runs)
    rows.push_back({printable(run.folder, SIZE_MAX), printable(run.about.name, 200), printable(run.name, SIZE_MAX),
                    std::string(text_of(run.state)), count_text(run.env_steps), score_text(run.score),
                    run.best ? format_figure(run.best->mean, 2) : "-", count_text(run.env_steps_per_second),
                    settings_text(differs), tags_text(run.about), printable(run.reason, 200)});
  constexpr std::ptrdiff_t kName = 1, kBest = 6, kTags = 9;
  for (const auto& [column, used] : {std::pair{kTags, tagged}, {kBest, ranked}, {kName, named}}) {
    if (used) continue;
    columns.erase(columns.begin() + column);
    for (auto& row : rows) row.erase(row.begin() + column);
  }
  std::cout << text_table(std::move(columns), std::move(rows), columns_of_output());
}

// In ASCII: a terminal would interpret control characters of names, and of those JSON escapes only some.
void print_json(const OrderedJson& json) {
  std::cout << json.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) << '\n';
}

OrderedJson json_of(const std::vector<ListedRun>& runs, const Words& problems) {
  OrderedJson result{{"runs", OrderedJson::array()}, {"problems", problems}};
  for (const ListedRun& each : runs) result["runs"].push_back(run_json(each.run, each.differs));
  return result;
}

void rank(const FoundRuns& found, const RunsOptions& options) {
  const std::vector<RankedGroup> groups = rank_groups(found.runs, options.group);
  if (options.json)
    return print_json({{"groups", groups_json(groups, found.runs, options.group)}, {"problems", found.problems}});
  std::cout << group_table(groups, columns_of_output()) << std::flush;
  print_problems(found.problems);
}

// Leaves only the runs with all of these tags. Throws ConfigError where none has.
void keep_tagged(std::vector<RunOverview>& runs, const Words& tags) {
  if (tags.empty()) return;
  std::set<std::string> known;
  for (const RunOverview& run : runs) known.insert(run.about.tags.begin(), run.about.tags.end());
  for (const std::string& tag : tags)
    if (!known.contains(tag)) {
      const std::string near = did_you_mean(tag, Words(known.begin(), known.end()));
      refuse_flag("--tag", printable(tag) + ": no run has this tag" + (near.empty() ? "" : ", " + near));
    }
  std::erase_if(runs, [&](const RunOverview& run) {
    return !std::ranges::all_of(tags, [&](const auto& tag) { return std::ranges::count(run.about.tags, tag) > 0; });
  });
  if (runs.empty()) refuse_flag("--tag", "no run has all of these tags");
}

void list_runs(const RunsOptions& options) {
  FoundRuns found = find_runs(options.folders);
  keep_tagged(found.runs, options.tags);
  if (!options.group.empty()) return rank(found, options);
  std::vector<SettingValues> differs = differences(found.runs);
  std::vector<ListedRun> runs;
  for (size_t i = 0; i < found.runs.size(); ++i) runs.push_back({std::move(found.runs[i]), std::move(differs[i])});
  sort_runs(runs, options);
  if (options.json) return print_json(json_of(runs, found.problems));
  print_table(runs);
  std::cout << std::flush;
  print_problems(found.problems);
}

}  // namespace

Command runs_command() {
  return {.name = "runs",
          .summary = "list runs: state, score, speed, and what differs between them",
          .examples =
              "  troupe runs\n"
              "  troupe runs sweep more/cartpole --sort score\n"
              "  troupe runs --sort learner.kl\n"
              "  troupe runs sweep --group trainer.policy_lr    # which value is best\n"
              "  troupe runs --json\n",
          .exit_codes = {{0, "runs were listed; what is wrong with other folders is on stderr, or in the JSON"},
                         {1, "the output could not be written"},
                         {2, "a mistake in the command, or no folder has a run"}},
          .parse = read_then_run<read_runs, list_runs>};
}

}  // namespace troupe
