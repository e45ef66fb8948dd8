#include "runtime/run_folder.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/errors.h"
#include "runtime/log.h"
#include "runtime/strict_json.h"

namespace troupe {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kComponent = "run folder";
constexpr const char* kConfigFile = "/config.json";
constexpr const char* kMetricsFile = "/metrics.jsonl";
constexpr const char* kLockFile = "/run.lock";
constexpr const char* kEpochFile = "/epoch";

// Fields that may change between the parts of a run; "x." stands for all under x.
constexpr std::string_view kMayChange[] = {
    "name",       "stop.",           "evaluation.",    "checkpoint.",        "stats.", "network.", "workers.",
    "inference.", "trainer.threads", "trainer.device", "trainer.max_skipped"};

// What a run folder may hold before its config is there: a process killed at the start leaves these.
constexpr std::string_view kOwnNames[] = {"run.lock", "log.txt", "config.json.tmp", "checkpoints"};

// Of those, the ones that decide about the results of a deterministic run.
constexpr std::string_view kDecide[] = {"workers.", "inference."};

bool matches(std::string_view field, std::string_view pattern) {
  return pattern.ends_with('.') ? field.starts_with(pattern) : field == pattern;
}

bool may_change(std::string_view field, bool deterministic) {
  const auto names_it = [&](std::string_view pattern) { return matches(field, pattern); };
  if (deterministic && std::ranges::any_of(kDecide, names_it)) return false;
  return std::ranges::any_of(kMayChange, names_it);
}

std::string text_of(const ordered_json* value) { return value != nullptr ? value->dump() : "not set"; }

const ordered_json* member(const ordered_json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}

// In the order of `now`, then what is only in `stored`.
std::optional<std::string> first_conflict(const std::string& path, const ordered_json* stored, const ordered_json* now,
                                          bool deterministic) {
  const bool both_objects = stored != nullptr && now != nullptr && stored->is_object() && now->is_object();
  if (!both_objects) {
    if (may_change(path, deterministic) || (stored != nullptr && now != nullptr && *stored == *now))
      return std::nullopt;
    return path + " was " + text_of(stored) + " and is now " + text_of(now);
  }
  const std::string prefix = path.empty() ? "" : path + '.';
  for (const auto& [key, value] : now->items())
    if (auto conflict = first_conflict(prefix + key, member(*stored, key), &value, deterministic)) return conflict;
  for (const auto& [key, value] : stored->items())
    if (!now->contains(key))
      if (auto conflict = first_conflict(prefix + key, &value, nullptr, deterministic)) return conflict;
  return std::nullopt;
}

// Whether a line of metrics.jsonl is of a moment after the one from which the run goes on. A line that cannot be read is.
bool is_after(std::string_view line, const RunFolder::ResumePoint& resume) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object()) return true;
  const auto exceeds = [&](const char* key, uint64_t limit) {
    return !value.contains(key) || !value[key].is_number_unsigned() || value[key].get<uint64_t>() > limit;
  };
  return exceeds("updates", resume.updates) || exceeds("env_steps", resume.env_steps);
}

}  // namespace

std::optional<std::string> config_conflict(const std::string& stored, const std::string& now) {
  const ordered_json before = parse_strict(stored, "the stored config");
  const ordered_json after = parse_strict(now, "this config");
  return first_conflict("", &before, &after, after.is_object() && after.value("deterministic", false));
}

std::string stored_config(const Disk& disk, const std::string& path) {
  if (!disk.exists(path)) throw ConfigError(path + ": no such run folder");
  if (!disk.exists(path + kConfigFile)) throw ConfigError(path + ": not a run folder, it holds no config.json");
  try {
    return disk.read(path + kConfigFile);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

uint32_t take_epoch(Disk& disk, const std::string& folder, uint32_t at_least) {
  const std::string path = folder + kEpochFile;
  try {
    uint32_t epoch = at_least;
    if (disk.exists(path)) {
      const std::string text = disk.read(path);
      uint32_t last = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, last);
      if (error != std::errc() || std::string_view(stop, static_cast<size_t>(end - stop)) != "\n" ||
          last == std::numeric_limits<uint32_t>::max())
        throw ConfigError(path + ": holds no epoch; remove it once no process of an earlier start of this run is left");
      epoch = std::max(epoch, last + 1);
    }
    disk.write_atomic(path, std::to_string(epoch) + '\n');
    return epoch;
  } catch (const IoError& error) {
    throw ConfigError(std::string(error.what()) +
                      "; without it other processes could take this start for an earlier one");
  }
}

RunFolder::RunFolder(Disk& disk, std::string path, const std::string& config, const UpgradeConfig& upgrade)
    : disk_(&disk), path_(std::move(path)), checkpoints_(disk, path_ + "/checkpoints") {
  try {
    open_or_create(config, upgrade);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

RunFolder::~RunFolder() {
  try {
    disk_->remove(path_ + "/endpoints.json");
  } catch (const IoError& error) {
    log_warn(kComponent, error.what());
  }
}

void RunFolder::open_or_create(const std::string& config, const UpgradeConfig& upgrade) {
  refuse_foreign_folder();
  disk_->make_directory(path_);
  lock_ = disk_->lock(path_ + kLockFile);
  resuming_ = disk_->exists(path_ + kConfigFile);
  if (resuming_) {
    std::string stored = disk_->read(path_ + kConfigFile);
    std::optional<std::string> conflict;
    try {
      if (upgrade) stored = upgrade(stored);
      conflict = config_conflict(stored, config);
    } catch (const std::runtime_error& error) {
      throw ConfigError(path_ + kConfigFile + ": cannot resume from this config: " + error.what());
    }
    if (conflict)
      throw ConfigError(path_ + ": cannot resume: " + *conflict + "; give it the old value, or use another run folder");
  }
  disk_->write_atomic(path_ + kConfigFile, config.ends_with('\n') ? config : config + '\n');
}

void RunFolder::refuse_foreign_folder() const {
  const std::vector<std::string> names = disk_->list(path_);
  if (std::find(names.begin(), names.end(), "config.json") != names.end()) return;
  for (const std::string& name : names)
    if (std::find(std::begin(kOwnNames), std::end(kOwnNames), name) == std::end(kOwnNames))
      throw ConfigError(path_ + ": not a run folder, it holds " + name +
                        " and no config.json; use an empty or a new folder");
}

void RunFolder::begin_metrics(double wall_time, const std::optional<ResumePoint>& resume) {
  best_effort("metrics.jsonl", lost_metrics_, [&] { rewind_metrics(resume); });
  events_start_ = wall_time;
  int index = 0;
  do events_path_ = path_ + '/' + event_file_name(wall_time, index++);
  while (disk_->exists(events_path_));
  if (resuming_)
    events_resume_ = resume ? resume->tensorboard_step.value_or(static_cast<int64_t>(resume->env_steps) + 1) : 0;
}

void RunFolder::rewind_metrics(const std::optional<ResumePoint>& resume) {
  const std::string path = path_ + kMetricsFile;
  if (!disk_->exists(path)) return;
  const std::string text = disk_->read(path);
  if (resume && resume->lines) return keep_lines(text, *resume->lines);
  size_t end = resume ? text.rfind('\n') + 1 : 0;  // npos + 1 = 0: no whole line
  while (end > 0) {
    const size_t previous = text.rfind('\n', end - 2);
    const size_t begin = end < 2 || previous == std::string::npos ? 0 : previous + 1;
    if (!is_after(std::string_view(text).substr(begin, end - begin), *resume)) break;
    end = begin;
  }
  if (end < text.size()) disk_->truncate(path, end);
  lines_ = static_cast<uint64_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
}

void RunFolder::keep_lines(const std::string& text, uint64_t count) {
  size_t end = 0;
  for (lines_ = 0; lines_ < count; ++lines_) {
    const size_t next = text.find('\n', end);
    if (next == std::string::npos) break;
    end = next + 1;
  }
  if (end < text.size()) disk_->truncate(path_ + kMetricsFile, end);
}

void RunFolder::best_effort(const std::string& file, Losses& losses, const std::function<void()>& write) {
  try {
    write();
  } catch (const IoError& error) {
    ++losses.total;
    if (losses.in_a_row++ == 0) log_error(kComponent, std::string(error.what()) + "; the run goes on without it");
    return;
  }
  if (losses.in_a_row > 0)
    log_warn(kComponent, file + ": writable again, " + std::to_string(losses.in_a_row) + " writes were lost");
  losses.in_a_row = 0;
}

void RunFolder::write_metrics(const std::string& json_line) {
  TROUPE_CHECK(json_line.find('\n') == std::string::npos, json_line);
  best_effort("metrics.jsonl", lost_metrics_, [&] {
    if (!metrics_) metrics_ = disk_->open_append(path_ + kMetricsFile);
    metrics_->append(json_line + '\n');
    ++lines_;
  });
}

void RunFolder::write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  TROUPE_CHECK(!events_path_.empty());
  best_effort("events", lost_events_, [&] {
    if (!events_)
      events_ = std::make_unique<EventWriter>(disk_->open_append(events_path_), events_start_, events_resume_);
    events_->add(wall_time, step, scalars);
  });
}

void RunFolder::write_endpoints(const std::string& json_text) {
  disk_->write_atomic(path_ + "/endpoints.json", json_text + '\n');
}

void RunFolder::write_summary(const std::string& json_text) {
  disk_->write_atomic(path_ + "/summary.json", json_text + '\n');
}

}  // namespace troupe
