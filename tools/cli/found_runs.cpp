#include "tools/cli/found_runs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/json_scan.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/run_details.h"

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr size_t kShownPath = 200;  // bytes in messages

// The folders in `folder`, hidden ones left out.
Words folders_in(const std::string& folder) {
  Words result;
  for (const std::string& name : posix_disk().list(folder)) {
    const fs::path path = fs::path(folder) / name;
    std::error_code failed;
    if (!name.starts_with('.') && fs::is_directory(path, failed)) result.push_back(path.string());
  }
  return result;
}

void add_run(const std::string& folder, const HeldLocks& held, FoundRuns& found) {
  try {
    found.runs.push_back(read_run(folder, held));
    const Words& damaged = found.runs.back().damaged;
    found.problems.insert(found.problems.end(), damaged.begin(), damaged.end());
  } catch (const ConfigError& error) {
    found.problems.emplace_back(error.what());
  } catch (const IoError& error) {
    found.problems.emplace_back(error.what());
  }
}

void add_runs(const std::string& folder, const HeldLocks& held, FoundRuns& found) {
  try {
    const RunFolders folders = run_folders(folder);
    for (const std::string& each : folders.runs) add_run(each, held, found);
    if (!folders.others.empty()) found.problems.push_back(others_text(folder, folders.others));
  } catch (const IoError& error) {
    found.problems.emplace_back(error.what());
  }
}

}  // namespace

RunOverview read_run(const std::string& folder, const HeldLocks& held) {
  RunOverview run = read_overview(posix_disk(), folder, held);
  run.mean_speed = mean_speed(posix_disk(), run);
  return run;
}

bool has_config(const std::string& folder) { return posix_disk().exists(folder + "/config.json"); }

RunFolders run_folders(const std::string& folder) {
  RunFolders found;
  for (const std::string& each : folders_in(folder)) {
    if (has_config(each)) {
      found.runs.push_back(each);
      continue;
    }
    Words below;
    try {
      below = folders_in(each);
    } catch (const IoError&) {  // not readable: it is named with the others
    }
    std::erase_if(below, [](const std::string& inner) { return !has_config(inner); });
    if (below.empty()) found.others.push_back(fs::path(each).filename());
    found.runs.insert(found.runs.end(), below.begin(), below.end());
  }
  return found;
}

std::string others_text(const std::string& folder, const Words& others) {
  constexpr size_t kNamed = 3;
  std::string text = printable(folder, kShownPath) + ": ";
  text += others.size() == 1 ? "1 folder has no run and is left out: "
                             : std::to_string(others.size()) + " folders have no runs and are left out: ";
  for (size_t i = 0; i < std::min(others.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + printable(others[i]);
  return others.size() > kNamed ? text + ", ..." : text;
}

FoundRuns find_runs(const Words& folders) {
  FoundRuns found;
  const HeldLocks held = held_locks();
  for (const std::string& folder : folders) {
    std::error_code failed;
    if (!fs::is_directory(folder, failed)) require_run_folder(folder);  // throws, with the nearest name
    if (has_config(folder))
      add_run(folder, held, found);
    else
      add_runs(folder, held, found);
  }
  if (!found.runs.empty()) return found;
  std::string names;
  for (const std::string& folder : folders) names += (names.empty() ? "" : ", ") + printable(folder, kShownPath);
  throw ConfigError(found.problems.empty() ? names + ": holds no runs, expected a folder with those of `troupe train`"
                                           : found.problems.front());
}

void print_problems(const Words& problems) {
  for (const std::string& problem : problems) print_error("troupe: " + problem);
}

std::string_view steps_word(bool environments, bool answers) {
  if (!answers) return "env steps";
  return environments ? "env steps or answers" : "answers";
}

std::string_view steps_word(std::span<const RunOverview> runs) {
  return steps_word(!std::ranges::all_of(runs, &RunOverview::tokens), std::ranges::any_of(runs, &RunOverview::tokens));
}

std::string_view speed_word(bool environments, bool answers) {
  if (!answers) return "mean steps/s";
  return environments ? "mean per second" : "mean answers/s";
}

std::vector<SettingValues> differences(const std::vector<RunOverview>& runs) {
  return differing_settings(runs, upgrade_config);
}

std::string settings_text(const SettingValues& settings, const Words& without) {
  std::string text;
  for (const auto& [path, value] : settings)
    if (std::ranges::count(without, path) == 0)
      text += (text.empty() ? "" : " ") + path + '=' + printable(scalar_text(value), kShownPath);
  return text;
}

}  // namespace troupe
