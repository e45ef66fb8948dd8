#include "tools/cli/run_details.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/base/errors.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/line_file.h"
#include "runtime/run_folder/record_order.h"
#include "runtime/stats/verdict.h"

namespace troupe {

namespace {

// How far a run was, and when.
struct Progress {
  double env_steps = RunOverview::kNone, seconds = RunOverview::kNone;
};

Progress progress_in(std::string_view line) {
  RecordPlace place{RunOverview::kNone, RunOverview::kNone};
  double seconds = RunOverview::kNone;
  const bool whole = scan_record(line, place, [&](std::string_view path, std::string_view text) {
    if (path == "elapsed_seconds") seconds = scalar_number(text).value_or(RunOverview::kNone);
  });
  return whole ? Progress{place.env_steps, seconds} : Progress();
}

// Of the first record with experience, if the first MiB of the file has one.
std::optional<Progress> first_experience(const Disk& disk, const std::string& folder) {
  constexpr uint64_t kMost = 1 << 20;
  const std::unique_ptr<ReadFile> file = disk.open_read(metrics_file(folder));
  std::string text;
  for (size_t begin = 0; begin < kMost;) {
    const size_t end = text.find('\n', begin);
    if (end == text.npos) {
      const std::string block = file->read(text.size(), kBlockBytes);
      if (block.empty() || text.size() >= kMost) return std::nullopt;
      text += block;
      continue;
    }
    const Progress progress = progress_in(std::string_view(text).substr(begin, end - begin));
    if (progress.env_steps > 0 && std::isfinite(progress.seconds)) return progress;
    begin = end + 1;
  }
  return std::nullopt;
}

bool names_something(std::string_view resource) {
  return !resource.empty() && resource != name_of(Resource::unknown) && resource != name_of(Resource::none);
}

std::string newest_verdict(const Disk& disk, const std::string& folder) {
  std::string resource, what;
  scan_json(read_last_lines(disk, folder, false).last, [&](std::string_view path, std::string_view text) {
    if (path == "bottleneck.resource") resource = scalar_text(text);
    if (path == "bottleneck.what") what = scalar_text(text);
  });
  return names_something(resource) ? what : "";
}

// The figure `alarms` in docs/metrics.md.
AlarmLevel level_of(double figure) {
  return figure == static_cast<double>(AlarmLevel::error) ? AlarmLevel::error : AlarmLevel::warning;
}

// Calls `on_object` with the objects "alarms" of the records that have any, each that is the same as the one before it
// left out. Whole records are not parsed: in a JSON string the quotes of the key would be escaped.
void for_each_alarms_object(const Disk& disk, const std::string& folder,
                            const std::function<void(std::string_view object)>& on_object) {
  constexpr uint64_t kMost = 16 << 20, kRead = 1 << 20;
  constexpr std::string_view kKey = "\"alarms\":";
  const std::unique_ptr<ReadFile> file = open_if_present(disk, metrics_file(folder));
  if (!file) return;
  std::string text, before;
  for (uint64_t at = file->size() - std::min(file->size(), kMost); at < file->size();) {
    const std::string block = file->read(at, kRead);
    if (block.empty()) return;  // the file has become shorter
    at += block.size();
    text += block;
    size_t done = text.size() - std::min(text.size(), kKey.size() - 1);
    for (size_t key = text.find(kKey); key != text.npos; key = text.find(kKey, key + 1)) {
      const size_t begin = text.find_first_not_of(' ', key + kKey.size()), end = text.find('}', key);
      if (begin == text.npos || (text[begin] == '{' && end == text.npos)) {
        done = key;  // the rest is in the next block
        break;
      }
      if (text[begin] != '{') continue;
      std::string object = text.substr(begin, end + 1 - begin);
      if (object != before) on_object(before = std::move(object));
      done = std::max(done, end);
    }
    text.erase(0, done);
  }
}

}  // namespace

double recorded_speed(const Disk& disk, const std::string& folder, const Record& last) {
  const double steps = figure_at(last, "env_steps"), seconds = figure_at(last, "elapsed_seconds");
  if (!std::isfinite(steps) || !std::isfinite(seconds)) return RunOverview::kNone;
  const std::optional<Progress> first = first_experience(disk, folder);
  if (!first || !(steps > first->env_steps) || !(seconds > first->seconds)) return RunOverview::kNone;
  return (steps - first->env_steps) / (seconds - first->seconds);
}

double mean_speed(const Disk& disk, const RunOverview& run) {
  const double recorded = recorded_speed(disk, run.folder, run.last);
  return std::isnan(recorded) ? run.env_steps_per_second : recorded;
}

std::string bottleneck_of_run(const Disk& disk, const RunOverview& run) {
  if (run.state == RunState::finished || run.state == RunState::stopped)
    return run.verdict + (std::isfinite(run.verdict_share) ? ' ' + format_percent(run.verdict_share) : "");
  return disk.exists(metrics_file(run.folder)) ? newest_verdict(disk, run.folder) : "";
}

AlarmLevels raised_alarms(const Disk& disk, const std::string& folder) {
  AlarmLevels alarms;
  try {
    for_each_alarms_object(disk, folder, [&](std::string_view object) {
      scan_json(object, [&](std::string_view name, std::string_view level) {
        AlarmLevel& worst = alarms.try_emplace(std::string(name), AlarmLevel::warning).first->second;
        worst = std::max(worst, level_of(scalar_number(level).value_or(0)));
      });
    });
  } catch (const IoError&) {  // those that were read count
  }
  return alarms;
}

AlarmLevels standing_alarms(const Record& last) {
  constexpr std::string_view kAlarms = "alarms.";
  AlarmLevels alarms;
  for (auto alarm = last.lower_bound(kAlarms); alarm != last.end() && alarm->first.starts_with(kAlarms); ++alarm)
    alarms.emplace(alarm->first.substr(kAlarms.size()), level_of(alarm->second));
  return alarms;
}

AlarmCounts count_of(const AlarmLevels& alarms) {
  AlarmCounts counts;
  for (const auto& [name, level] : alarms) ++(level == AlarmLevel::error ? counts.errors : counts.warnings);
  return counts;
}

std::string text_of(const AlarmCounts& counts) {
  std::string text = counts.errors == 0 ? "" : format_counted(counts.errors, "error");
  if (counts.warnings > 0) text += (text.empty() ? "" : ", ") + format_counted(counts.warnings, "warning");
  return text;
}

}  // namespace troupe
