#include "runtime/run_folder/run_folder.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr const char* kComponent = "run folder";
constexpr const char* kConfigFile = "/config.json";
constexpr const char* kSummaryFile = "/summary.json";
constexpr const char* kLockFile = "/run.lock";
constexpr const char* kEndpointsFile = "/endpoints.json";
constexpr const char* kEpochFile = "/epoch";
constexpr const char* kInitialWeightsFile = "/init.safetensors";
constexpr const char* kInitialSourceFile = "/init.json";
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxEpochBytes = 64;

// What a run folder may hold before its config is there: a process killed at the start leaves these.
constexpr std::string_view kOwnNames[] = {"run.lock", "log.txt", "config.json.tmp"};

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
    const Json document = parse_strict(disk.read(path, kMaxConfigBytes), "damaged");
    std::map<std::string, std::string> source;
    for (const auto& [key, value] : document.get_ref<const Json::object_t&>()) source[key] = value.get<std::string>();
    return source;
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  } catch (const ConfigError& error) {
    throw ConfigError(path + ": " + error.what());
  } catch (const json::exception&) {
    throw ConfigError(path + ": damaged: is not an object of strings");
  }
}

RunFolder::RunFolder(Disk& disk, std::string path, const std::string& config, const SettingsOfRun& settings)
    : disk_(&disk),
      path_(std::move(path)),
      metrics_(disk, path_),
      checkpoints_(disk, path_ + "/checkpoints", {fixed_settings(config, settings), settings}),
      best_(disk, path_) {
  try {
    open_or_create(config, settings);
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

void RunFolder::open_or_create(const std::string& config, const SettingsOfRun& settings) {
  refuse_foreign_folder();
  disk_->make_directory(path_);
  lock_ = disk_->lock(path_ + kLockFile);
  resuming_ = disk_->exists(path_ + kConfigFile);
  if (resuming_) {
    require_checkpoint_of_summary();
    std::string stored = disk_->read(path_ + kConfigFile, kMaxConfigBytes);
    std::optional<SettingChange> conflict;
    try {
      if (settings.upgrade) stored = settings.upgrade(stored);
      conflict = config_conflict(stored, config, settings);
    } catch (const std::runtime_error& error) {
      throw ConfigError(path_ + kConfigFile + ": cannot resume from this config: " + error.what());
    }
    if (conflict) replace_settings(*conflict);
    config_before_ = std::move(stored);
  }
  disk_->write_atomic(path_ + kConfigFile, config.ends_with('\n') ? config : config + '\n');
}

// A run that ended has written a checkpoint before its summary. Throws ConfigError when the summary tells of updates
// and there is none.
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

// Throws ConfigError when something was made with the old settings.
void RunFolder::replace_settings(const SettingChange& conflict) {
  const bool trained = metrics_.has_updates();
  const bool saved = !disk_->list(path_ + "/checkpoints").empty();
  const bool only_first = checkpoints_.list() == std::vector<uint64_t>{0};  // the weights before the first update
  if (trained || (saved && !only_first))
    throw ConfigError(path_ + ": cannot resume: " + conflict.sentence() + "; to resume, " +
                      (conflict.before == kNotSet ? "remove it" : "give it the old value") +
                      "; to begin a new run, give another folder with --run DIR" +
                      (saved ? " (and --init-from " + path_ + " for the weights of this one)" : ""));
  if (only_first) checkpoints_.remove(0);
  replaced_ = true;
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

void RunFolder::set_aside_damaged_best() {
  std::vector<CheckpointScore> ranking;
  try {
    ranking = read_ranking(*disk_, path_);
  } catch (const IoError&) {
    return;  // BestCheckpoints::begin() says why
  }
  for (const CheckpointScore& score : ranking) checkpoints_.set_aside_damaged(score.updates);
}

void RunFolder::keep_best(uint64_t count, const std::string& measure, uint64_t keep) {
  if (count > 0) set_aside_damaged_best();
  const std::vector<uint64_t> saved = checkpoints_.list();
  std::vector<uint64_t> not_newest = saved;
  not_newest.resize(keep == 0 || keep >= saved.size() ? 0 : saved.size() - keep);
  best_.begin(count, measure, saved, not_newest);
}

void RunFolder::save_checkpoint(const Checkpoint& checkpoint, uint64_t keep, bool evaluated_later) {
  lock_->check();
  checkpoints_.save(checkpoint);
  kept_ = keep;
  newest_ = checkpoint.updates;
  best_.add(checkpoint.updates, evaluated_later);
  prune();
}

void RunFolder::rank_checkpoint(const CheckpointScore& score) {
  lock_->check();
  const std::vector<uint64_t> saved = checkpoints_.list();
  best_.rank(score, std::ranges::find(saved, score.updates) != saved.end());
  prune();
}

void RunFolder::prune() {
  if (!newest_) return;
  try {
    checkpoints_.prune(kept_, *newest_, best_.kept());
  } catch (const IoError& refused) {
    log_warn(kComponent, std::string(refused.what()) + "; an old checkpoint is kept");
  }
}

void RunFolder::keep_initial_weights(const Safetensors& weights) {
  try {
    lock_->check();
    disk_->remove(path_ + kInitialSourceFile);  // of other weights: it must not stand beside these after a kill
    write_safetensors(*disk_, path_ + kInitialWeightsFile, weights.tensors, weights.metadata);
    disk_->write_atomic(path_ + kInitialSourceFile, json(weights.metadata).dump(2) + '\n');
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::begin_metrics(double wall_time, const std::optional<ResumePoint>& resume) {
  try {
    metrics_.begin(wall_time, resuming_, resume);
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
}

void RunFolder::write_metrics(const std::string& json_line) {
  lock_->check();
  metrics_.write_line(json_line);
}

void RunFolder::write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  lock_->check();
  metrics_.write_scalars(wall_time, step, scalars);
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
