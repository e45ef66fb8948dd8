#include "tools/top/run_files.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/tcp_probe.h"
#include "runtime/base/text_format.h"
#include "runtime/run_folder/alarm_file.h"
#include "runtime/run_folder/line_file.h"
#include "runtime/run_folder/record_order.h"
#include "runtime/run_folder/run_overview.h"

namespace troupe {

namespace {

constexpr uint64_t kMostEndpoints = 1 << 16, kMostRecord = 16 << 20;
constexpr std::chrono::seconds kProbe{1};

// The JSON object in a file of the folder; null if it cannot be read.
Json object_in(const std::string& path, uint64_t most_bytes = kMaxReadBytes) {
  try {
    return stored_object(posix_disk(), path, most_bytes);
  } catch (const IoError&) {
    return {};
  }
}

// The complete lines in the last `most_bytes` of a file; none if the file is missing.
std::vector<std::string> last_lines(const std::string& path, uint64_t most_bytes) {
  const std::unique_ptr<ReadFile> file = open_if_present(posix_disk(), path);
  if (!file) return {};
  const uint64_t begin = file->size() - std::min(file->size(), most_bytes);
  const std::string bytes = file->read(begin, most_bytes);
  size_t at = begin == 0 ? 0 : std::min(bytes.find('\n'), bytes.size() - 1) + 1;
  std::vector<std::string> lines;
  for (size_t end; (end = bytes.find('\n', at)) != std::string::npos; at = end + 1)
    lines.push_back(bytes.substr(at, end - at));
  return lines;
}

// What the summary of a run that has ended says, as `troupe runs`; empty for others.
std::string longest_verdict(const std::string& folder) {
  try {
    if (has_open_start(posix_disk(), folder)) return "";
  } catch (const IoError&) {
    return "";
  }
  const Json summary = object_in(folder + "/summary.json");
  const Json start = summary.is_object() ? summary.value("last_start", Json()) : Json();
  const Json verdict = start.is_object() ? start.value("bottleneck", Json()) : Json();
  const std::string what = text_member(verdict, "what");
  const Json share = verdict.is_object() ? verdict.value("share", Json()) : Json();
  if (what.empty() || !share.is_number()) return "";
  const std::string why = text_member(verdict, "why"), advice = text_member(verdict, "advice");
  return what + ' ' + format_percent(share.get<double>()) + " of the time" + (why.empty() ? "" : ": " + why) +
         (advice.empty() ? "" : "; " + advice);
}

// Those that alarms.json has: of all starts, and newer than the last record.
void add_alarms(TopModel& model, const std::string& folder) {
  const std::optional<std::vector<PastAlarm>> past = read_alarms(posix_disk(), folder);
  if (!past) return;
  model.newest->alarms.clear();
  for (const PastAlarm& each : *past) {
    const Alarm alarm{each.level, each.since.value_or(0), each.text};
    if (model.raised.size() < TopModel::kMostAlarms || model.raised.contains(each.name))
      model.raised[each.name] = alarm;
    if (each.standing) model.newest->alarms[each.name] = alarm;
  }
}

}  // namespace

std::optional<Address> stats_address(const std::string& folder) {
  const std::string text = text_member(object_in(folder + "/endpoints.json", kMostEndpoints), "stats");
  try {
    return text.empty() ? std::nullopt : std::optional(parse_address("stats", text));
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

std::vector<std::string> live_runs(const std::string& parent) {
  std::vector<std::string> found;
  for (const std::string& name : posix_disk().list(parent)) {
    const std::string folder = (std::filesystem::path(parent) / name).string();
    const std::optional<Address> address = stats_address(folder);
    if (address && !probe_tcp(address->host, address->port, std::chrono::steady_clock::now() + kProbe).address.empty())
      found.push_back(folder);
  }
  return found;
}

void read_record(TopModel& model, const std::string& folder) {
  const Json config = object_in(folder + "/config.json");
  const std::string name = text_member(config, "name");
  const std::filesystem::path path = std::filesystem::path(folder) / "";
  model.describe(name.empty() ? path.parent_path().filename().string() : name, config.dump());
  std::vector<StatsSnapshot> snapshots;
  std::vector<RecordPlace> places;
  std::optional<EvaluationResult> evaluation;
  for (const std::string& line : last_lines(folder + "/metrics.jsonl", kMostRecord)) {
    try {
      const StatsSnapshot& s = snapshots.emplace_back(snapshot_of(line, *model.words));
      places.push_back({static_cast<double>(s.env_steps), static_cast<double>(s.updates)});
      if (s.evaluation) evaluation = s.evaluation;
    } catch (const ConfigError&) {  // not a line of ours: the others count
      continue;
    }
  }
  model.longest = longest_verdict(folder);
  if (snapshots.empty()) return;
  uint64_t number = 0;
  for (const size_t i : in_order(places)) {
    if (!snapshots[i].warmup) model.history.add(++number, snapshots[i]);
    const std::string time = format_seconds(snapshots[i].elapsed_seconds);
    model.show(std::move(snapshots[i]), time);
  }
  if (!model.newest->evaluation) model.newest->evaluation = evaluation;
  add_alarms(model, folder);
}

FolderState folder_state(const std::string& folder) {
  try {
    const StateOfRun run = read_state(posix_disk(), folder, held_locks());
    if (run.state == RunState::running)
      return {Link::unserved, "the run serves no statistics: this is its last record"};
    if (has_open_start(posix_disk(), folder)) return {Link::killed, "the run was killed"};
    const bool told = posix_disk().exists(folder + "/summary.json");
    return {Link::ended, told ? "the run ended: " + run.reason : "the run " + run.reason};
  } catch (const IoError& unreadable) {
    return {Link::lost, unreadable.what()};
  }
}

}  // namespace troupe
