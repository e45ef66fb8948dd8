// `troupe runs`: lists the runs in folders: what each is, how far it is, and how good.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/found_runs.h"
#include "tools/cli/group_report.h"
#include "tools/cli/run_details.h"
#include "tools/cli/run_json.h"
#include "tools/cli/run_order.h"
#include "tools/cli/run_table.h"
#include "tools/cli/terminal.h"

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

RunsOptions read_runs(Flags& flags) {
  RunsOptions options;
  flags.arguments("DIR...", options.folders, "folders of runs, or folders that hold such folders (default: runs)");
  flags.option("--sort", "FIGURE", options.sort, parse_sort,
               "run, config, state, score, speed, alarms, bottleneck, seconds, changed (the time of the newest "
               "record), or a figure that "
               "`troupe metrics` lists, by its value in the newest record, one of eval.* in the newest evaluation; the "
               "largest first, runs without it last (default: the order of the folders)");
  flags.repeatable("--group", "SETTING", options.group,
                   "rank the values of this setting instead: a line for all runs with the same value, the best first, "
                   "with the interquartile mean of their scores and its 95 % bootstrap interval; repeatable, for "
                   "combinations of values");
  flags.repeatable("--tag", "TAG", options.tags,
                   "list only runs with this tag of `troupe train --tag`; repeatable: with all");
  flags.toggle("--reverse", options.reverse,
               "list them in reverse order; runs without the figure of --sort still come last");
  flags.toggle("--json", options.json, "print JSON");
  flags.read();
  if (!options.group.empty() && (!options.sort.empty() || options.reverse))
    flags.refuse(std::string(options.reverse ? "--reverse" : "--sort") +
                 ": has no effect with --group, which lists the best group first; leave it out");
  for (const std::string& folder : options.folders) path_to("a folder")("DIR", folder);
  if (options.folders.empty()) options.folders = {kDefaultFolder};
  return options;
}

size_t columns_of_output() { return isatty(STDOUT_FILENO) != 0 ? terminal_size().columns : line_columns(); }

// In ASCII: a terminal would interpret control characters of names, and of those JSON escapes only some.
void print_json(const OrderedJson& json) {
  std::cout << json.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) << '\n';
}

// Without --sort, --reverse turns the order of the folders around.
void sort_runs(std::vector<ListedRun>& runs, const RunsOptions& options, Words& problems) {
  if (options.sort.empty()) {
    if (options.reverse) std::ranges::reverse(runs);
    return;
  }
  const std::string missing = set_keys(posix_disk(), options.sort, runs);
  if (!missing.empty()) problems.push_back(missing);
  sort_by_key(runs, options.reverse);
}

OrderedJson json_of(const ListedRun& each, const std::string& sort) {
  OrderedJson result = run_json(each.run, each.differs, each.bottleneck, each.alarms);
  if (sort.empty()) return result;
  result["sorted_by"] = {{"figure", sort}};
  if (const auto* alarms = std::get_if<AlarmCounts>(&each.key))
    result["sorted_by"]["value"] = counts_json(*alarms);
  else if (const auto* text = std::get_if<std::string>(&each.key))
    result["sorted_by"]["value"] = *text;
  else
    result["sorted_by"]["value"] = std::get<double>(each.key);
  return result;
}

OrderedJson json_of(const std::vector<ListedRun>& runs, const std::string& sort, const Words& problems) {
  OrderedJson result{{"runs", OrderedJson::array()}, {"problems", problems}};
  for (const ListedRun& each : runs) result["runs"].push_back(json_of(each, sort));
  return result;
}

void rank(const FoundRuns& found, const RunsOptions& options) {
  const std::vector<RankedGroup> groups = rank_groups(found.runs, options.group);
  std::vector<std::vector<size_t>> members;
  for (const RankedGroup& each : groups) members.push_back(each.group.runs);
  Words problems = found.problems;
  if (const auto mixed = mixed_settings_text(found.runs, members, options.group); !mixed.empty())
    problems.push_back("--group: " + mixed);
  if (options.json)
    return print_json({{"groups", groups_json(groups, found.runs, options.group)}, {"problems", problems}});
  std::cout << group_table(groups, columns_of_output()) << std::flush;
  print_problems(problems);
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
  for (size_t i = 0; i < found.runs.size(); ++i) {
    std::string bottleneck = bottleneck_of_run(posix_disk(), found.runs[i]);
    RunAlarms alarms = alarms_of_run(posix_disk(), found.runs[i]);
    runs.push_back({std::move(found.runs[i]), std::move(differs[i]), std::move(bottleneck), std::move(alarms)});
  }
  sort_runs(runs, options, found.problems);
  if (options.json) return print_json(json_of(runs, options.sort, found.problems));
  std::cout << run_table(runs, options.sort, columns_of_output()) << std::flush;
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
