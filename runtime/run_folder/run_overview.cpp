#include "runtime/run_folder/run_overview.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/best_checkpoints.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/line_file.h"

namespace troupe {

namespace {

void flatten(const Json& value, const std::string& path, SettingValues& into) {
  if (!value.is_object() || value.empty()) {
    into.emplace_back(path, value.dump());
    return;
  }
  for (const auto& [key, member] : value.items()) flatten(member, path.empty() ? key : path + '.' + key, into);
}

std::string value_at(const SettingValues& settings, std::string_view path) {
  const auto found = std::ranges::find(settings, path, &std::pair<std::string, std::string>::first);
  return found == settings.end() ? kNotSet : found->second;
}

std::string setting_of(const SettingValues& settings, std::string_view path) {
  const std::string value = value_at(settings, path);
  return value == kNotSet ? "" : scalar_text(value);
}

double json_number(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>() : RunOverview::kNone;
}

std::optional<int64_t> seconds_of_change(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_mtim.tv_sec;
}

uint64_t updates_from(double number) { return number >= 0 && number < 0x1p53 ? static_cast<uint64_t>(number) : 0; }

std::optional<RunScore> score_in(const Json& evaluation) {
  const double mean = json_number(evaluation, "return_mean"), updates = json_number(evaluation, "updates");
  if (std::isnan(mean) || evaluation.contains("error")) return std::nullopt;
  return RunScore{mean, json_number(evaluation, "return_std"), true, updates_from(updates)};
}

std::optional<RunScore> score_in(const Record& record, const std::string& group) {
  const double mean = figure_at(record, group + ".return_mean");
  if (std::isnan(mean)) return std::nullopt;
  return RunScore{mean, figure_at(record, group + ".return_std"), group == "eval",
                  updates_from(figure_at(record, "updates"))};
}

// Summaries of older versions have it under another name.
double speed_in(const Json& summary) {
  const double mean = json_number(summary, "mean_env_steps_per_second");
  return std::isnan(mean) ? json_number(summary, "env_steps_per_second") : mean;
}

void add_verdict(const Json& summary, RunOverview& run) {
  const Json start = summary.is_object() ? summary.value("last_start", Json()) : Json();
  const Json verdict = start.is_object() ? start.value("bottleneck", Json()) : Json();
  run.verdict = text_member(verdict, "what");
  if (!run.verdict.empty()) run.verdict_share = json_number(verdict, "share");
}

// What the summary says of a run that has ended, what the records say of others.
void add_figures(const Disk& disk, const Json& summary, RunOverview& run) {
  const bool ended = summary.is_object() && run.state != RunState::running && !has_open_start(disk, run.folder);
  if (ended) run.score = score_in(summary.value("eval", Json()));
  if (ended) add_verdict(summary, run);
  LastRecords records;
  if (disk.exists(metrics_file(run.folder))) records = read_last_records(disk, run.folder, !run.score);
  run.last = records.last;
  run.env_steps = ended ? json_number(summary, "env_steps") : figure_at(run.last, "env_steps");
  run.updates = ended ? json_number(summary, "updates") : figure_at(run.last, "updates");
  run.seconds = ended ? json_number(summary, "wall_seconds") : figure_at(run.last, "elapsed_seconds");
  run.env_steps_per_second = ended ? speed_in(summary) : figure_at(run.last, "env_steps_per_second_60s");
  if (!run.score) run.score = score_in(records.evaluated, "eval");
  run.trained = score_in(run.last, "episodes");
  if (!run.score) run.score = run.trained;
}

// In the order in which configs have them, without `name`.
std::vector<std::string> differing_paths(const std::vector<SettingValues>& configs) {
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, size_t>> counts;  // path -> value -> number of configs
  for (const SettingValues& config : configs)
    for (const auto& [path, value] : config) {
      std::map<std::string, size_t>& values = counts[path];
      if (values.empty()) order.push_back(path);
      ++values[value];
    }
  std::erase_if(order, [&](const std::string& path) {
    const std::map<std::string, size_t>& values = counts[path];
    return path == "name" || (values.size() == 1 && values.begin()->second == configs.size());
  });
  return order;
}

bool missing_somewhere(const std::vector<SettingValues>& configs, const std::vector<std::string>& paths) {
  return std::ranges::any_of(paths, [&](const std::string& path) {
    return std::ranges::any_of(configs, [&](const SettingValues& each) { return value_at(each, path) == kNotSet; });
  });
}

// As it is where this version cannot read it.
SettingValues upgraded(const RunOverview& run, const Upgrade& upgrade) {
  try {
    return settings_in(upgrade(run.config), run.folder);
  } catch (const ConfigError&) {
    return run.settings;
  }
}

constexpr const char* kSummary = "/summary.json";

// How a run has ended, as far as its folder tells.
struct Ending {
  Json summary;        // null if it is missing or damaged
  std::string damage;  // what is wrong with it
  StateOfRun state;
};

Ending read_ending(const Disk& disk, const std::string& folder, const HeldLocks& held, int64_t changed) {
  Ending ending;
  ending.summary = stored_object(disk, folder + kSummary, kMaxReadBytes, &ending.damage);
  ending.state = state_of(disk, folder, ending.summary, held, changed);
  const bool ended = ending.state.state != RunState::running && !has_open_start(disk, folder);
  if (ended && !ending.damage.empty()) ending.state.reason = "summary.json is damaged";
  return ending;
}

// A line for each of the two files that is damaged; `summary` and `about` are what is wrong with them.
std::vector<std::string> damage_lines(const std::string& summary, const std::string& about) {
  std::vector<std::string> lines;
  if (!summary.empty()) lines.push_back(summary + "; state, score and speed are from the other files of the run");
  if (!about.empty()) lines.push_back(about + "; the name, note and tags of the run are not known");
  return lines;
}

int64_t time_of_change(const std::string& folder) {
  return seconds_of_change(metrics_file(folder)).value_or(seconds_of_change(folder + "/config.json").value_or(0));
}

void add_best(const Disk& disk, RunOverview& run) {
  try {
    const Ranking ranking = read_ranking(disk, run.folder);
    if (ranking.scores.empty()) return;
    run.best = RunScore{ranking.scores.front().return_mean, RunOverview::kNone, true, ranking.scores.front().updates};
  } catch (const IoError&) {  // damaged: the next start of the run says so
  }
}

}  // namespace

SettingValues settings_in(const std::string& config, const std::string& source) {
  const Json json = parse_strict(config, source);
  if (!json.is_object()) throw ConfigError(source + ": is not a JSON object");
  SettingValues settings;
  flatten(json, "", settings);
  return settings;
}

RunOverview read_overview(const Disk& disk, const std::string& folder, const HeldLocks& held) {
  RunOverview run;
  run.folder = folder;
  const std::string path = folder + "/config.json";
  if (!disk.exists(path)) throw ConfigError(folder + ": is not the folder of a run, it has no config.json");
  run.config = disk.read(path);
  run.settings = settings_in(run.config, path);
  run.name = setting_of(run.settings, "name");
  run.tokens = setting_of(run.settings, "model.kind") == "decoder";
  run.task = setting_of(run.settings, run.tokens ? "task.name" : "env.id");
  run.changed = time_of_change(folder);
  const Ending ending = read_ending(disk, folder, held, run.changed);
  run.state = ending.state.state;
  run.reason = ending.state.reason;
  add_figures(disk, ending.summary, run);
  std::string about_damage;
  run.about = read_about(disk, folder, &about_damage);
  run.damaged = damage_lines(ending.damage, about_damage);
  if (disk.exists(folder + "/best.json")) add_best(disk, run);
  return run;
}

StateOfRun read_state(const Disk& disk, const std::string& folder, const HeldLocks& held) {
  return read_ending(disk, folder, held, time_of_change(folder)).state;
}

std::vector<std::string> damaged_files(const Disk& disk, const std::string& folder) {
  std::string summary, about;
  try {
    stored_object(disk, folder + kSummary, kMaxReadBytes, &summary);
  } catch (const IoError& refused) {
    summary = refused.what();
  }
  read_about(disk, folder, &about);
  return damage_lines(summary, about);
}

std::vector<SettingValues> differing_settings(const std::vector<RunOverview>& runs, const Upgrade& upgrade) {
  std::map<std::string, std::vector<size_t>> same_name;
  for (size_t i = 0; i < runs.size(); ++i) same_name[runs[i].name].push_back(i);
  std::vector<SettingValues> result(runs.size());
  for (const auto& [name, members] : same_name) {
    std::vector<SettingValues> settings;
    for (const size_t i : members) settings.push_back(runs[i].settings);
    std::vector<std::string> paths = differing_paths(settings);
    if (missing_somewhere(settings, paths)) {
      for (size_t i = 0; i < members.size(); ++i) settings[i] = upgraded(runs[members[i]], upgrade);
      paths = differing_paths(settings);
    }
    for (size_t i = 0; i < members.size(); ++i)
      for (const std::string& path : paths) result[members[i]].emplace_back(path, value_at(settings[i], path));
  }
  return result;
}

}  // namespace troupe
