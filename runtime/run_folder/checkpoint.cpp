#include "runtime/run_folder/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr int kFormat = 2;
constexpr int kOldestFormat = 1;              // has no settings; its seed alone tells it from another run's
constexpr uint64_t kMaxStateBytes = 1 << 20;  // of state.json
constexpr uint64_t kTensorsPerWeight = 4;     // an optimizer's file holds at most that many times the weights
constexpr size_t kNameDigits = 12;
constexpr int kMostListings = 100;  // of a folder whose checkpoints are removed faster than they are read
constexpr const char* kStateFile = "/state.json";
constexpr const char* kOldSuffix = ".old";          // the checkpoint that save() is replacing
constexpr const char* kDamagedSuffix = ".damaged";  // set aside by recover()
constexpr const char* kComponent = "checkpoint";

std::string name_of_step(uint64_t step) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llu", static_cast<int>(kNameDigits), static_cast<unsigned long long>(step));
  return text;
}

std::optional<uint64_t> step_of_name(const std::string& name) {
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || name != name_of_step(step)) return std::nullopt;
  return step;
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

// JSON has no NaN and no infinities: they are written as strings.
json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_of(const json& value) {
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return value.get<double>();
}

json state_json(const Checkpoint& checkpoint) {
  json scalars = json::object();
  for (const auto& [name, value] : checkpoint.scalars) scalars[name] = number_json(value);
  return {{"epoch", checkpoint.version.epoch}, {"number", checkpoint.version.number},
          {"env_steps", checkpoint.env_steps}, {"updates", checkpoint.updates},
          {"seed", checkpoint.seed},           {"scalars", std::move(scalars)}};
}

void read_state(const json& state, Checkpoint& checkpoint) {
  checkpoint.version = {state.at("epoch").get<uint32_t>(), state.at("number").get<uint64_t>()};
  state.at("env_steps").get_to(checkpoint.env_steps);
  state.at("updates").get_to(checkpoint.updates);
  state.at("seed").get_to(checkpoint.seed);
  for (const auto& [name, value] : state.at("scalars").items()) checkpoint.scalars[name] = number_of(value);
}

std::map<std::string, Array> extras_as_arrays(const std::map<std::string, std::string>& extras) {
  std::map<std::string, Array> arrays;
  for (const auto& [name, bytes] : extras)
    arrays[name] = Array::of({static_cast<int64_t>(bytes.size())},
                             std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  return arrays;
}

std::map<std::string, std::string> extras_of(const std::map<std::string, Array>& arrays) {
  std::map<std::string, std::string> extras;
  for (const auto& [name, array] : arrays)
    extras[name].assign(reinterpret_cast<const char*>(array.data()), array.bytes());
  return extras;
}

// Writes one file and notes its size and CRC in `files`.
void write_tensors(Disk& disk, const std::string& directory, const std::string& name,
                   const std::map<std::string, Array>& tensors, json& files) {
  std::string header;
  const std::string path = directory + '/' + name;
  const std::vector<std::string_view> parts = safetensors_parts(tensors, {{"format", "pt"}}, path, header);
  uint64_t bytes = 0;
  uint32_t crc = 0;
  for (std::string_view part : parts) {
    bytes += part.size();
    crc = crc32c(part, crc);
  }
  disk.write_atomic(path, parts);
  files[name] = {{"bytes", bytes}, {"crc32c", hex(crc)}};
}

// A file is read only if it has the size that was written, and that is not above `max_bytes`.
std::map<std::string, Array> read_tensors(const Disk& disk, const std::string& directory, const std::string& name,
                                          const json& files, uint64_t max_bytes) {
  const std::string path = directory + '/' + name;
  const json& expected = files.at(name);
  const std::unique_ptr<ReadFile> file = disk.open_read(path);
  const uint64_t size = file->size();
  if (size != expected.at("bytes").get<uint64_t>())
    throw IoError(path,
                  "damaged: " + std::to_string(size) + " bytes, " + expected.at("bytes").dump() + " were written");
  if (size > max_bytes)
    throw IoError(path, "holds " + std::to_string(size) + " bytes, expected at most " + std::to_string(max_bytes) +
                            " for this run's model");
  const std::string bytes = file->read(0, size);
  if (const std::string crc = hex(crc32c(bytes)); expected.at("crc32c") != crc)
    throw IoError(path, "damaged: CRC " + crc + ", " + expected.at("crc32c").get<std::string>() + " was written");
  return parse_safetensors(bytes, path).tensors;
}

// Why a checkpoint is not of the owner's run, or nothing.
std::optional<SettingChange> foreign(const json& document, const CheckpointOwner& owner) {
  if (owner.settings.empty()) return std::nullopt;
  if (!document.contains("settings"))
    return config_conflict(json{{"seed", document.at("state").at("seed")}}.dump(),
                           json{{"seed", json::parse(owner.settings).value("seed", json())}}.dump(), owner.rules);
  const std::string theirs = document["settings"].dump();
  const SettingsOfRun& rules = owner.rules;
  return config_conflict(rules.upgrade ? fixed_settings(rules.upgrade(theirs), rules) : theirs, owner.settings, rules);
}

void check_owner(const json& document, const CheckpointOwner& owner, const std::string& directory) {
  std::optional<SettingChange> conflict;
  try {
    conflict = foreign(document, owner);
  } catch (const ConfigError& error) {
    throw IoError(directory, std::string("is not of this run: ") + error.what());
  }
  if (conflict) throw IoError(directory, "is of another run: " + conflict->sentence());
}

// The CRC covers the meaning of state.json, not its white space.
std::string crc_of_state(const json& document) {
  json covered = document;
  covered.erase("crc32c");
  return hex(crc32c(covered.dump()));
}

json read_state_file(const Disk& disk, const std::string& path) {
  const std::string text = disk.read(path, kMaxStateBytes);
  json document;
  try {
    document = parse_strict(text, "damaged");
  } catch (const ConfigError& error) {
    throw IoError(path, error.what());
  }
  if (!document.is_object() || !document.contains("crc32c") || document["crc32c"] != crc_of_state(document))
    throw IoError(path, "damaged: its contents do not fit its CRC");
  const json& format = document.at("format");
  if (format < kOldestFormat || format > kFormat)
    throw IoError(path, "has format " + format.dump() + ", this program reads formats " +
                            std::to_string(kOldestFormat) + " to " + std::to_string(kFormat));
  return document;
}

}  // namespace

std::map<std::string, Array> read_checkpoint_model(const Disk& disk, const std::string& directory) {
  const std::string state_path = directory + kStateFile;
  try {
    return read_tensors(disk, directory, "model.safetensors", read_state_file(disk, state_path).at("files"),
                        std::numeric_limits<uint64_t>::max());
  } catch (const json::exception&) {
    throw IoError(state_path, "damaged: an entry is missing or has the wrong type");
  }
}

std::string read_checkpoint_settings(const Disk& disk, const std::string& directory) {
  const std::string state_path = directory + kStateFile;
  try {
    const json document = read_state_file(disk, state_path);
    return document.contains("settings") ? document["settings"].dump() : "";
  } catch (const json::exception&) {
    throw IoError(state_path, "damaged: an entry is missing or has the wrong type");
  }
}

std::string CheckpointStore::path_of(uint64_t step) const { return folder_ + '/' + name_of_step(step); }

void CheckpointStore::save(const Checkpoint& checkpoint) {
  const std::string target = path_of(checkpoint.updates);
  const std::string temporary = temporary_name(target);
  disk_->remove(temporary);
  disk_->make_directory(temporary);
  json document = {{"format", kFormat}, {"state", state_json(checkpoint)}, {"files", json::object()}};
  if (!owner_.settings.empty()) document["settings"] = json::parse(owner_.settings);
  json& files = document["files"];
  try {
    write_tensors(*disk_, temporary, "model.safetensors", checkpoint.model, files);
    write_tensors(*disk_, temporary, "optimizer.safetensors", checkpoint.optimizer, files);
    if (!checkpoint.extras.empty())
      write_tensors(*disk_, temporary, "extras.safetensors", extras_as_arrays(checkpoint.extras), files);
    document["crc32c"] = crc_of_state(document);
    disk_->write_atomic(temporary + kStateFile, document.dump(2) + '\n');
    const std::string old = target + kOldSuffix;
    const bool replaces = disk_->exists(target);
    if (replaces) {
      disk_->remove(old);
      disk_->rename(target, old);
    }
    disk_->rename(temporary, target);
    if (replaces) disk_->remove(old);
  } catch (const IoError&) {
    undo_save(target);
    throw;
  }
}

// After a failed save. Where the new checkpoint is in place and only its directory could not be synced, the old one
// stays beside it until the next save or recover().
void CheckpointStore::undo_save(const std::string& target) {
  const std::string old = target + kOldSuffix;
  try {
    disk_->remove(temporary_name(target));
    if (!disk_->exists(target) && disk_->exists(old)) disk_->rename(old, target);
  } catch (const IoError&) {
    // The disk refuses this too: recover() will do it. The first error says why.
  }
}

std::vector<uint64_t> CheckpointStore::list() const {
  std::vector<uint64_t> steps;
  for (const std::string& name : disk_->list(folder_))
    if (const auto step = step_of_name(name)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

Checkpoint CheckpointStore::load(uint64_t step) const {
  const std::string directory = path_of(step);
  const std::string state_path = directory + kStateFile;
  const uint64_t max_bytes =
      weight_bytes_ ? kMaxSafetensorsHeader + kTensorsPerWeight * *weight_bytes_ : std::numeric_limits<uint64_t>::max();
  Checkpoint checkpoint;
  try {
    const json document = read_state_file(*disk_, state_path);
    read_state(document.at("state"), checkpoint);
    if (checkpoint.updates != step)
      throw IoError(directory, "holds the checkpoint of update " + std::to_string(checkpoint.updates) +
                                   ", expected that of update " + std::to_string(step));
    if (checkpoint.version.number != step)
      throw IoError(directory,
                    "holds policy version " + checkpoint.version.text() + ", expected number " + std::to_string(step));
    check_owner(document, owner_, directory);
    const json& files = document.at("files");
    checkpoint.model = read_tensors(*disk_, directory, "model.safetensors", files, max_bytes);
    checkpoint.optimizer = read_tensors(*disk_, directory, "optimizer.safetensors", files, max_bytes);
    if (files.contains("extras.safetensors"))
      checkpoint.extras =
          extras_of(read_tensors(*disk_, directory, "extras.safetensors", files, std::numeric_limits<uint64_t>::max()));
  } catch (const json::exception&) {
    throw IoError(state_path, "damaged: an entry is missing or has the wrong type");
  }
  return checkpoint;
}

CheckpointStore::Newest CheckpointStore::find_newest() const {
  for (int attempt = 0; attempt < kMostListings; ++attempt)
    if (std::optional<Newest> newest = find_newest(list())) return std::move(*newest);
  throw IoError(folder_, "each checkpoint was removed while it was read; raise checkpoint.keep of the run");
}

// Nothing when a trainer removed one of them since they were listed: there is a newer one by now.
std::optional<CheckpointStore::Newest> CheckpointStore::find_newest(const std::vector<uint64_t>& steps) const {
  Newest result;
  std::vector<std::string> problems;
  for (auto step = steps.rbegin(); step != steps.rend() && !result.checkpoint; ++step) {
    try {
      result.checkpoint = load(*step);
    } catch (const IoError& error) {
      if (!disk_->exists(path_of(*step))) return std::nullopt;
      problems.emplace_back(error.what());
      result.unusable.push_back(*step);
    }
  }
  if (!result.checkpoint && !problems.empty())
    throw IoError(folder_, "no checkpoint can be used; the newest one: " + problems.front());
  for (const std::string& problem : problems) log_warn(kComponent, problem + "; using the checkpoint before it");
  return result;
}

std::optional<Checkpoint> CheckpointStore::load_newest() const { return find_newest().checkpoint; }

void CheckpointStore::remove_leftovers() {
  for (const std::string& name : disk_->list(folder_)) {
    const std::string stem = name.substr(0, name.find('.'));
    if (!step_of_name(stem)) continue;  // not ours
    const std::string path = folder_ + '/' + name, target = folder_ + '/' + stem;
    if (is_temporary_name(name)) disk_->remove(path);
    if (name != stem + kOldSuffix) continue;
    if (disk_->exists(target))
      disk_->remove(path);
    else
      disk_->rename(path, target);
  }
}

std::optional<Checkpoint> CheckpointStore::recover() {
  remove_leftovers();
  Newest newest = find_newest();
  for (const uint64_t step : newest.unusable) set_aside(step);
  return std::move(newest.checkpoint);
}

void CheckpointStore::set_aside(uint64_t step) {
  disk_->remove(path_of(step) + kDamagedSuffix);
  disk_->rename(path_of(step), path_of(step) + kDamagedSuffix);
}

void CheckpointStore::set_aside_damaged(uint64_t step) {
  if (!disk_->exists(path_of(step))) return;
  try {
    load(step);
  } catch (const IoError& problem) {
    log_warn(kComponent,
             std::string(problem.what()) + "; the checkpoint is renamed to " + path_of(step) + kDamagedSuffix);
    set_aside(step);
  }
}

void CheckpointStore::prune(uint64_t keep, uint64_t newest, const std::set<uint64_t>& spared) {
  std::vector<uint64_t> steps = list();
  std::erase_if(steps, [&](uint64_t step) { return step > newest; });  // not ours: recover() set ours aside
  if (keep == 0 || steps.size() <= keep) return;
  for (size_t i = 0; i < steps.size() - keep; ++i)
    if (!spared.contains(steps[i])) remove(steps[i]);
}

void CheckpointStore::remove(uint64_t step) {
  // Renamed first: a removal that is cut short must not leave a checkpoint without some of its files.
  const std::string path = path_of(step);
  disk_->rename(path, temporary_name(path));
  disk_->remove(temporary_name(path));
}

}  // namespace troupe
