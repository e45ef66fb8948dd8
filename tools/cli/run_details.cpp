#include "tools/cli/run_details.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/base/errors.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/alarm_file.h"
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

std::optional<RunAlarms> written_alarms(const Disk& disk, const std::string& folder) {
  const std::optional<std::vector<PastAlarm>> past = read_alarms(disk, folder);
  if (!past) return std::nullopt;
  RunAlarms alarms;
  for (const PastAlarm& each : *past) {
    add_worst(each.name, each.level, alarms.raised);
    if (each.standing) add_worst(each.name, each.level, alarms.standing);
  }
  return alarms;
}

RunAlarms alarms_of_run(const Disk& disk, const RunOverview& run) {
  if (std::optional<RunAlarms> written = written_alarms(disk, run.folder)) return *std::move(written);
  return {alarms_in_records(disk, run.folder), alarms_in(run.last)};
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
