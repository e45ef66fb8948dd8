#include "runtime/run_folder.h"

#include <algorithm>
#include <cerrno>
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
constexpr const char* kSummaryFile = "/summary.json";
constexpr const char* kLockFile = "/run.lock";
constexpr const char* kEndpointsFile = "/endpoints.json";
constexpr const char* kEpochFile = "/epoch";
constexpr const char* kChanged = ": was renamed, removed or cut during the run";
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxEpochBytes = 64;
constexpr uint64_t kMaxLineBytes = 1 << 20;  // of metrics.jsonl; longer ones are not ours
constexpr uint64_t kBlockBytes = 16 << 10;   // metrics.jsonl can be larger than memory: it is read in blocks

// What a run folder may hold before its config is there: a process killed at the start leaves these.
constexpr std::string_view kOwnNames[] = {"run.lock", "log.txt", "config.json.tmp"};

// Whether a line of metrics.jsonl is of a moment after the one from which the run goes on. A line that cannot be read is.
bool is_after(std::string_view line, const RunFolder::ResumePoint& resume) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object()) return true;
  const auto exceeds = [&](const char* key, uint64_t limit) {
    return !value.contains(key) || !value[key].is_number_unsigned() || value[key].get<uint64_t>() > limit;
  };
  return exceeds("updates", resume.updates) || exceeds("env_steps", resume.env_steps);
}

// Where the line begins that the byte before `end` is in.
uint64_t begin_of_line(const ReadFile& file, uint64_t end) {
  while (end > 0) {
    const uint64_t begin = end - std::min(end, kBlockBytes);
    const size_t line_break = file.read(begin, end - begin).rfind('\n');
    if (line_break != std::string::npos) return begin + line_break + 1;
    end = begin;
  }
  return 0;
}

struct Lines {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

// The whole lines in the first `end` bytes, at most `max_count` of them.
Lines first_lines(const ReadFile& file, uint64_t end, uint64_t max_count) {
  Lines lines;
  for (uint64_t begin = 0; begin < end; begin += kBlockBytes) {
    const std::string block = file.read(begin, std::min(kBlockBytes, end - begin));
    for (size_t i = block.find('\n'); i != std::string::npos && lines.count < max_count; i = block.find('\n', i + 1))
      lines = {lines.count + 1, begin + i + 1};
  }
  return lines;
}

// Bytes of the lines up to the moment from which the run resumes, which come before all others.
uint64_t bytes_until(const ReadFile& file, const RunFolder::ResumePoint& resume) {
  uint64_t end = begin_of_line(file, file.size());  // a last line without its end is torn
  while (end > 0) {
    const uint64_t begin = begin_of_line(file, end - 1);
    if (end - begin <= kMaxLineBytes && !is_after(file.read(begin, end - begin), resume)) break;
    end = begin;
  }
  return end;
}

// The file, or null where there is none. Throws IoError for a broken link, and when the file system does not answer: that says nothing about
// the file.
std::unique_ptr<ReadFile> open_if_present(const Disk& disk, const std::string& path) {
  try {
    return disk.open_read(path);
  } catch (const IoError& error) {
    const bool absent = error.error_number() == ENOENT || error.error_number() == ENOTDIR;
    if (!absent || disk.exists(path)) throw;
    return nullptr;
  }
}

}  // namespace

uint32_t take_epoch(Disk& disk, const std::string& folder, uint32_t at_least) {
  const std::string path = folder + kEpochFile;
  try {
    uint32_t epoch = at_least;
    if (disk.exists(path)) {
      const std::string text = disk.read(path, kMaxEpochBytes);
      uint32_t last = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, last);
      constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max() - 1;
      if (error != std::errc() || std::string_view(stop, static_cast<size_t>(end - stop)) != "\n" || last > kMost)
        throw ConfigError(path + ": does not contain an integer from 0 to " + std::to_string(kMost) +
                          "; remove it once no process of an earlier start of this run is left");
      epoch = std::max(epoch, last + 1);
    }
    disk.write_atomic(path, std::to_string(epoch) + '\n');
    return epoch;
  } catch (const IoError& error) {
    throw ConfigError(std::string(error.what()) +
                      "; the start's number cannot be recorded, and workers of an earlier start could rejoin");
  }
}

RunFolder::RunFolder(Disk& disk, std::string path, const std::string& config, const UpgradeConfig& upgrade)
    : disk_(&disk),
      path_(std::move(path)),
      checkpoints_(disk, path_ + "/checkpoints", {fixed_settings(config), upgrade}) {
  try {
    open_or_create(config, upgrade);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

RunFolder::~RunFolder() { remove_endpoints(); }

void RunFolder::remove_endpoints() const {
  if (!endpoints_written_) return;
  try {
    lock_->check();
    disk_->remove(path_ + kEndpointsFile);
  } catch (const LockLost&) {
    // They are another process's by now.
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
    require_checkpoint_of_summary();
    std::string stored = disk_->read(path_ + kConfigFile, kMaxConfigBytes);
    std::optional<std::string> conflict;
    try {
      if (upgrade) stored = upgrade(stored);
      conflict = config_conflict(stored, config);
    } catch (const std::runtime_error& error) {
      throw ConfigError(path_ + kConfigFile + ": cannot resume from this config: " + error.what());
    }
    if (conflict) replace_settings(*conflict);
    config_before_ = std::move(stored);
  }
  disk_->write_atomic(path_ + kConfigFile, config.ends_with('\n') ? config : config + '\n');
}

// A run that ended has written a checkpoint before its summary. Throws ConfigError when the summary tells of updates and there is none.
void RunFolder::require_checkpoint_of_summary() const {
  const std::string path = path_ + kSummaryFile, folder = path_ + "/checkpoints";
  if (!disk_->exists(path) || !disk_->list(folder).empty()) return;
  const json summary = json::parse(disk_->read(path), nullptr, false);
  const bool untrained = summary.is_object() && summary.contains("updates") && summary["updates"] == 0;
  if (untrained) return;
  throw ConfigError(folder + ": holds no checkpoint, but " + path +
                    " is of a run that has trained; restore the checkpoints, use another run folder, or remove " +
                    path + " to begin anew");
}

// Whether metrics.jsonl holds a line after the first update, or anything that cannot be read.
bool RunFolder::has_metrics_of_updates() const {
  const std::string path = path_ + kMetricsFile;
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  if (!file) return false;
  return bytes_until(*file, {.updates = 0, .env_steps = std::numeric_limits<uint64_t>::max()}) < file->size();
}

// Throws ConfigError when something was made with the old settings.
void RunFolder::replace_settings(const std::string& conflict) {
  const bool trained = has_metrics_of_updates();
  const bool saved = !disk_->list(path_ + "/checkpoints").empty();
  const bool only_first = checkpoints_.list() == std::vector<uint64_t>{0};  // the weights before the first update
  if (trained || (saved && !only_first))
    throw ConfigError(path_ + ": cannot resume: " + conflict + "; give it the old value, or use another run folder");
  if (only_first) checkpoints_.remove(0);
  replaced_ = conflict;
}

void RunFolder::refuse_foreign_folder() const {
  const std::vector<std::string> names = disk_->list(path_);
  if (std::find(names.begin(), names.end(), "config.json") != names.end()) return;
  for (const std::string& name : names)
    if (std::find(std::begin(kOwnNames), std::end(kOwnNames), name) == std::end(kOwnNames))
      throw ConfigError(path_ + ": not a run folder, it holds " + name +
                        " and no config.json; use an empty or a new folder");
}

std::unique_ptr<AppendFile> RunFolder::open_log_file() {
  try {
    return disk_->open_append(path_ + "/log.txt");
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::save_checkpoint(const Checkpoint& checkpoint, uint64_t keep) {
  lock_->check();
  checkpoints_.save(checkpoint);
  try {
    checkpoints_.prune(keep, checkpoint.updates);
  } catch (const IoError& refused) {
    log_warn(kComponent, std::string(refused.what()) + "; an old checkpoint is kept");
  }
}

void RunFolder::begin_metrics(double wall_time, const std::optional<ResumePoint>& resume) {
  try {
    rewind_metrics(resume);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
  events_start_ = wall_time;
  name_events();
  if (resuming_)
    events_resume_ = resume ? resume->tensorboard_step.value_or(static_cast<int64_t>(resume->env_steps) + 1) : 0;
}

void RunFolder::rewind_metrics(const std::optional<ResumePoint>& resume) {
  const std::string path = path_ + kMetricsFile;
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  if (!file) return;
  if (!resume && file->size() > 0) return set_metrics_aside();
  Lines kept;
  if (resume && resume->lines) kept = first_lines(*file, file->size(), *resume->lines);
  // Without a count, or where the file is not the one that was counted.
  if (resume && (!resume->lines || kept.count < *resume->lines))
    kept = first_lines(*file, bytes_until(*file, *resume), std::numeric_limits<uint64_t>::max());
  lines_ = kept.count;
  if (kept.bytes < file->size()) disk_->truncate(path, kept.bytes);
  if (resume && resume->lines && lines_ < *resume->lines)
    log_warn(kComponent, path + ": holds " + std::to_string(lines_) + " lines, there were " +
                             std::to_string(*resume->lines) + " at the checkpoint; the others are lost");
}

// To the first free one of metrics.jsonl.1, metrics.jsonl.2 and so on.
void RunFolder::set_metrics_aside() {
  const std::string path = path_ + kMetricsFile;
  uint64_t number = 1;
  while (disk_->exists(path + '.' + std::to_string(number))) ++number;
  former_metrics_ = path + '.' + std::to_string(number);
  disk_->rename(path, *former_metrics_);
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

// 0 when it cannot be read.
uint64_t RunFolder::size_of(const std::string& path) const {
  try {
    return disk_->open_read(path)->size();
  } catch (const IoError&) {
    return 0;
  }
}

// Whether a file that held that many bytes is gone, or holds fewer.
bool RunFolder::was_replaced(const std::string& path, uint64_t bytes) const {
  try {
    const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
    return !file || file->size() < bytes;
  } catch (const IoError&) {
    return false;  // the write will say why
  }
}

// Cuts off what does not end a line. The number of lines that are left, 0 without a file.
uint64_t RunFolder::cut_to_whole_lines(const std::string& path) {
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  if (!file) return 0;
  const Lines whole = first_lines(*file, file->size(), std::numeric_limits<uint64_t>::max());
  if (whole.bytes < file->size()) disk_->truncate(path, whole.bytes);
  return whole.count;
}

void RunFolder::open_metrics() {
  const std::string path = path_ + kMetricsFile;
  if (metrics_ && was_replaced(path, metrics_bytes_)) {
    lines_ = cut_to_whole_lines(path);  // when the disk refuses, the next write tries again
    metrics_.reset();
    log_warn(kComponent, path + kChanged + "; " +
                             (lines_ == 0 ? "a new file is begun"
                                          : "the run appends to the " + std::to_string(lines_) +
                                                (lines_ == 1 ? " whole line" : " whole lines") + " that it holds"));
  }
  if (metrics_) return;
  metrics_ = disk_->open_append(path);
  metrics_bytes_ = size_of(path);
}

void RunFolder::write_metrics(const std::string& json_line) {
  TROUPE_CHECK(json_line.find('\n') == std::string::npos, json_line);
  lock_->check();
  best_effort("metrics.jsonl", lost_metrics_, [&] {
    open_metrics();
    metrics_->append(json_line + '\n');
    metrics_bytes_ += json_line.size() + 1;
    ++lines_;
  });
}

// To the first free name of this start. A name is never used twice: readers would go on in the middle of the new file.
void RunFolder::name_events() {
  do events_path_ = path_ + '/' + event_file_name(events_start_, events_index_++);
  while (disk_->exists(events_path_));
}

void RunFolder::open_events() {
  if (events_ && was_replaced(events_path_, events_bytes_)) {
    const std::string changed = events_path_;
    events_.reset();
    events_resume_.reset();
    name_events();
    log_warn(kComponent, changed + kChanged + "; " + events_path_ + " continues it");
  }
  if (events_) return;
  auto file = disk_->open_append(events_path_);
  events_bytes_ = 0;
  events_ = std::make_unique<EventWriter>(std::move(file), events_start_, events_resume_);
}

void RunFolder::write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  TROUPE_CHECK(!events_path_.empty());
  lock_->check();
  best_effort("events", lost_events_, [&] {
    open_events();
    events_->add(wall_time, step, scalars);
    events_bytes_ = size_of(events_path_);
  });
}

void RunFolder::write_endpoints(const std::string& json_text) {
  try {
    disk_->write_atomic(path_ + kEndpointsFile, json_text + '\n');
    endpoints_written_ = true;
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::write_summary(const std::string& json_text) {
  lock_->check();
  disk_->write_atomic(path_ + kSummaryFile, json_text + '\n');
}

}  // namespace troupe
