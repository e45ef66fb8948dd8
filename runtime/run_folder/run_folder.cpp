#include "runtime/run_folder/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/start_files.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr const char* kRunFolder = "run folder";
constexpr const char* kConfigFile = "/config.json";
constexpr const char* kSummaryFile = "/summary.json";
constexpr const char* kLockFile = "/run.lock";
constexpr const char* kEndpointsFile = "/endpoints.json";
constexpr const char* kInitialWeightsFile = "/init.safetensors";
constexpr const char* kInitialSourceFile = "/init.json";
constexpr uint64_t kMaxConfigBytes = 1 << 20;

// The files that a run folder without config.json may contain: a process that was killed at the start leaves them.
constexpr std::string_view kOwnNames[] = {"run.lock",  "log.txt",       "config.json.tmp",     "init.safetensors",
                                          "init.json", "init.json.tmp", "init.safetensors.tmp"};

// "trainer.epochs was 4 and is now 8, seed was 1 and is now 2", and the number of further changes.
std::string sentences_of(const std::vector<SettingChange>& conflicts) {
  constexpr size_t kNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(conflicts.size(), kNamed); ++i)
    text += (i == 0 ? "" : ", ") + conflicts[i].sentence();
  return conflicts.size() > kNamed ? text + ", and " + std::to_string(conflicts.size() - kNamed) + " more" : text;
}

std::string how_to_resume(const std::vector<SettingChange>& conflicts) {
  if (conflicts.size() > 1) return "give them their old values";
  return conflicts.front().before == kNotSet ? "remove it" : "give it the old value";
}

}  // namespace

std::optional<Safetensors> read_initial_weights(const Disk& disk, const std::string& folder) {
  const std::string path = folder + kInitialWeightsFile;
  if (!disk.exists(path)) return std::nullopt;
  try {
    return read_safetensors(disk, path);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

std::optional<std::map<std::string, std::string>> read_initial_source(const Disk& disk, const std::string& folder) {
  const std::string path = folder + kInitialSourceFile;
  if (!disk.exists(path)) {
    const std::optional<Safetensors> weights = read_initial_weights(disk, folder);
    return weights ? std::optional(weights->metadata) : std::nullopt;
  }
  try {
    const Json document = parse_stored(disk.read(path, kMaxConfigBytes), path);
    if (!document.is_object()) throw ConfigError(path + ": is not an object, expected what --init-from has written");
    std::map<std::string, std::string> source;
    for (const auto& [key, value] : document.get_ref<const Json::object_t&>()) {
      if (!value.is_string())
        throw ConfigError(path + ": " + printable(key) + " is not a string, expected what --init-from has written");
      source[key] = value.get<std::string>();
    }
    return source;
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

RunFolder::RunFolder(Disk& disk, std::string path, const std::string& config, const SettingsOfRun& settings,
                     const Safetensors* initial)
    : disk_(&disk),
      path_(std::move(path)),
      config_(config.ends_with('\n') ? config : config + '\n'),
      metrics_(disk, path_),
      answers_(disk, path_),
      alarms_(disk, path_),
      checkpoints_(disk, path_ + "/checkpoints", {fixed_settings(config, settings), settings}),
      best_(disk, path_) {
  try {
    open_or_create(settings, initial);
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
    // The folder, and so this file, now belongs to another process.
  } catch (const IoError& error) {
    log_warn(kRunFolder, error.what());
  }
}

void RunFolder::open_or_create(const SettingsOfRun& settings, const Safetensors* initial) {
  refuse_foreign_folder();
  disk_->make_directory(path_);
  lock_ = disk_->lock(path_ + kLockFile);
  resuming_ = disk_->exists(path_ + kConfigFile);
  refuse_other_kinds();
  if (resuming_) {
    require_checkpoint_of_summary();
    std::string stored = disk_->read(path_ + kConfigFile, kMaxConfigBytes);
    parse_strict(stored, path_ + kConfigFile);
    std::vector<SettingChange> conflicts;
    try {
      if (settings.upgrade) stored = settings.upgrade(stored);
      conflicts = config_conflicts(stored, config_, settings);
    } catch (const std::runtime_error& error) {
      throw ConfigError(path_ + kConfigFile + ": cannot resume from this config: " + error.what());
    }
    if (!conflicts.empty() && has_only_warmed_up())
      conflicts = config_conflicts(stored, config_, settings, RunStage::before_first_update);
    if (!conflicts.empty()) replace_settings(conflicts);
    config_before_ = std::move(stored);
  }
  // If there may be a checkpoint, the caller first finds out whether it can be used, and keeps the weights only if not.
  if (initial != nullptr && disk_->list(path_ + "/checkpoints").empty()) {
    keep_initial_weights(*initial);
    keeps_initial_ = true;
  }
  if (!resuming_) disk_->write_atomic(path_ + kConfigFile, config_);
}

void RunFolder::keep_config() {
  try {
    lock_->check();
    disk_->write_atomic(path_ + kConfigFile, config_);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

// Throws ConfigError when there is a summary of a trained run but no checkpoint, unless the run failed before its first
// one. A run that ends in order writes its checkpoint before the summary, so somebody has removed it, or the disk has
// refused it, and then the summary is all that there is.
void RunFolder::require_checkpoint_of_summary() const {
  const std::string path = path_ + kSummaryFile, folder = path_ + "/checkpoints";
  if (!disk_->exists(path) || has_saved()) return;
  const json summary = json::parse(disk_->read(path, kMaxConfigBytes), nullptr, false);
  const bool readable = summary.is_object() && summary.contains("updates");
  const bool failed_before =
      readable && summary.contains("error") && summary.contains("has_checkpoint") && summary["has_checkpoint"] == false;
  if (failed_before || (readable && summary["updates"] == 0)) return;
  throw ConfigError(folder + ": holds no checkpoint, but " + path +
                    (readable ? " is of a run that has trained" : " cannot be read, so the run may have trained") +
                    "; restore the checkpoints, use another run folder, or remove " + path + " to start over");
}

bool RunFolder::has_saved() const {
  return std::ranges::any_of(disk_->list(path_ + "/checkpoints"), [](const std::string& name) {
    return !name.empty() && name.front() >= '0' && name.front() <= '9' && !name.ends_with(".tmp") &&
           name.find(".kept") == std::string::npos;
  });
}

// Whether all that was trained are steps of a warm-up, which are saved.
bool RunFolder::has_only_warmed_up() const {
  return checkpoints_.list() == std::vector<uint64_t>{0} && checkpoints_.scalar_of(0, kWarmupSteps).value_or(0) > 0 &&
         !metrics_.has_updates();
}

// Accepts changed settings if the run has not trained yet, and throws ConfigError otherwise.
void RunFolder::replace_settings(const std::vector<SettingChange>& conflicts) {
  const bool trained = metrics_.has_updates();
  const bool saved = has_saved();
  // The checkpoint before the first update holds weights that nothing has trained, unless it is of a warm-up.
  const bool only_first = checkpoints_.list() == std::vector<uint64_t>{0} && !has_only_warmed_up();
  if (trained || (saved && !only_first))
    throw ConfigError(path_ + ": cannot resume: " + sentences_of(conflicts) + "; to resume, " +
                      how_to_resume(conflicts) + "; to begin a new run, give another folder with --run DIR" +
                      (saved ? " (and --init-from " + path_ + " for the weights of this one)" : ""));
  if (only_first) checkpoints_.remove(0);
  replaced_ = true;
}

void RunFolder::refuse_foreign_folder() const {
  const std::vector<std::string> names = disk_->list(path_);
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (has("config.json")) {
    // Every start locks the folder before it writes the config. Somebody may have removed the lock.
    if (has("run.lock") || has("log.txt") || has("checkpoints") || has("metrics.jsonl")) return;
    throw ConfigError(path_ + ": not a run folder, no run has written its config.json; use an empty or a new folder");
  }
  for (const std::string& name : names)
    if (std::find(std::begin(kOwnNames), std::end(kOwnNames), name) == std::end(kOwnNames))
      throw ConfigError(path_ + ": not a run folder, it holds " + printable(name) +
                        " and no config.json; use an empty or a new folder");
}

// Throws IoError when one of the files that are written later is a directory or a pipe, or cannot be read. A broken
// link is replaced, or followed.
void RunFolder::refuse_other_kinds() const {
  for (const char* name : {kSummaryFile, kEndpointsFile, kEpochFile, kStatsPortFile, "/metrics.jsonl", "/answers.jsonl",
                           "/alarms.json", "/log.txt"}) {
    const std::string path = path_ + name;
    try {
      if (disk_->exists(path)) disk_->open_read(path);
    } catch (const IoError& error) {
      if (error.error_number() != ENOENT) throw;
    }
  }
}

std::unique_ptr<AppendFile> RunFolder::open_log_file() {
  try {
    return disk_->open_append(path_ + "/log.txt");
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::keep_best(const RankedBy& by, uint64_t keep) {
  try {
    SavedCheckpoints saved{checkpoints_.list(), {}, [this](uint64_t step) { return checkpoints_.check(step); }};
    saved.not_newest = saved.all;
    saved.not_newest.resize(keep == 0 || keep >= saved.all.size() ? 0 : saved.all.size() - keep);
    best_.begin(by, saved);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::save_checkpoint(const Checkpoint& checkpoint, uint64_t keep, bool evaluated_later) {
  lock_->check();
  const std::string weights = checkpoints_.save(checkpoint);
  kept_ = keep;
  newest_ = checkpoint.updates;
  best_.add(checkpoint.updates, evaluated_later, weights);
  prune();
}

void RunFolder::rank_checkpoint(const CheckpointScore& score) {
  lock_->check();
  const std::vector<uint64_t> saved = checkpoints_.list();
  const bool there = std::ranges::find(saved, score.updates) != saved.end();
  best_.rank(score, there ? std::optional(checkpoints_.weights_checksum(score.updates)) : std::nullopt);
  prune();
}

void RunFolder::prune() {
  if (!newest_) return;
  try {
    checkpoints_.prune(kept_, *newest_, best_.kept());
  } catch (const IoError& refused) {
    log_warn(kRunFolder, std::string(refused.what()) + "; an old checkpoint is kept");
  }
}

std::optional<Safetensors> RunFolder::initial_weights() const {
  std::optional<Safetensors> weights = read_initial_weights(*disk_, path_);
  if (weights) weights->metadata = *read_initial_source(*disk_, path_);
  return weights;
}

void RunFolder::keep_initial_weights(const Safetensors& weights) {
  if (keeps_initial_) return;
  try {
    lock_->check();
    disk_->remove(path_ + kInitialSourceFile);  // describes other weights: after a kill it must not be beside these
    write_safetensors(*disk_, path_ + kInitialWeightsFile, weights.tensors, weights.metadata);
    disk_->write_atomic(path_ + kInitialSourceFile, json(weights.metadata).dump(2) + '\n');
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::begin_metrics(double wall_time, const std::optional<ResumePoint>& resume) {
  try {
    metrics_.begin(wall_time, resuming_, resume, config_);
    answers_.begin(resume ? std::optional(resume->updates) : std::nullopt);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

// A deterministic run, whose lines are counted, makes the updates after the resume point again as they were.
void RunFolder::begin_alarms(const std::optional<ResumePoint>& resume) {
  alarms_.begin(resume ? std::optional(AlarmFile::Resume{resume->updates, resume->lines.has_value()}) : std::nullopt);
}

void RunFolder::write_metrics(const std::string& json_line) {
  lock_->check();
  metrics_.write_line(json_line);
}

void RunFolder::write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  lock_->check();
  metrics_.write_scalars(wall_time, step, scalars);
}

void RunFolder::write_answers(uint64_t updates, const std::string& lines) {
  lock_->check();
  answers_.write(updates, lines);
}

void RunFolder::note_alarms(uint64_t updates, const std::vector<RaisedAlarm>& raised,
                            const std::map<std::string, Alarm>& standing) {
  lock_->check();
  alarms_.note(updates, raised, standing);
}

std::vector<std::string> RunFolder::refusals() const {
  std::vector<std::string> result;
  for (const LostWrites* lost : {&metrics_.lost_lines(), &metrics_.lost_events(), &answers_.lost(), &alarms_.lost()})
    if (!lost->error.empty()) result.push_back(lost->error);
  return result;
}

void RunFolder::write_stats_port(uint16_t port) {
  try {
    troupe::write_stats_port(*disk_, path_, port);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::write_endpoints(const std::string& json_text) {
  try {
    disk_->write_atomic(path_ + kEndpointsFile, json_text + '\n');
    endpoints_written_ = true;
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

bool RunFolder::has_summary() const { return disk_->exists(path_ + kSummaryFile); }

void RunFolder::write_summary(const std::string& json_text) {
  lock_->check();
  disk_->write_atomic(path_ + kSummaryFile, json_text + '\n');
}

}  // namespace troupe
