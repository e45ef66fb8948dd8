#include "tools/cli/run_details.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

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

}  // namespace

double mean_speed(const Disk& disk, const RunOverview& run) {
  const double steps = figure_at(run.last, "env_steps"), seconds = figure_at(run.last, "elapsed_seconds");
  if (!std::isfinite(steps) || !std::isfinite(seconds)) return run.env_steps_per_second;
  const std::optional<Progress> first = first_experience(disk, run.folder);
  if (!first || !(steps > first->env_steps) || !(seconds > first->seconds)) return run.env_steps_per_second;
  return (steps - first->env_steps) / (seconds - first->seconds);
}

std::string bottleneck_of_run(const Disk& disk, const RunOverview& run) {
  if (run.state == RunState::finished || run.state == RunState::stopped)
    return run.verdict + (std::isfinite(run.verdict_share) ? ' ' + format_percent(run.verdict_share) : "");
  return disk.exists(metrics_file(run.folder)) ? newest_verdict(disk, run.folder) : "";
}

AlarmCounts alarms_of(const Record& last) {
  constexpr std::string_view kAlarms = "alarms.";
  constexpr double kError = 2;  // the figure `alarms` in docs/metrics.md
  AlarmCounts counts;
  for (auto alarm = last.lower_bound(kAlarms); alarm != last.end() && alarm->first.starts_with(kAlarms); ++alarm)
    ++(alarm->second == kError ? counts.errors : counts.warnings);
  return counts;
}

}  // namespace troupe
