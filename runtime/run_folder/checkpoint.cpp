#include "runtime/run_folder/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "runtime/base/crc32c.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/checkpoint_state.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr uint64_t kTensorsPerWeight = 4;  // an optimizer's file holds at most that many times the weights
constexpr size_t kNameDigits = 12;
constexpr int kMostListings = 100;  // attempts to find a checkpoint, if a trainer removes each while it is read
constexpr const char* kStateFile = "/state.json";
constexpr const char* kOldSuffix = ".old";          // the checkpoint that save() is replacing
constexpr const char* kDamagedSuffix = ".damaged";  // renamed by recover() or check()
constexpr const char* kKeptSuffix = ".kept";        // renamed because it holds files that are not a checkpoint's
constexpr const char* kForeignSuffix = ".foreign";  // renamed by recover()
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kExtrasFile = "extras.safetensors";
constexpr const char* kCheckpoint = "checkpoint";

// The files that save() makes, complete or not.
const std::vector<std::string>& own_files() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result = {kModelFile, kOptimizerFile, kExtrasFile, kStateFile + 1};
    for (size_t i = 0; i < 4; ++i) result.push_back(temporary_name(result[i]));
    return result;
  }();
  return names;
}

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

std::unique_ptr<ReadFile> open_whole(const Disk& disk, const std::string& path, const json& expected) {
  std::unique_ptr<ReadFile> file = disk.open_read(path);
  if (file->size() != expected.at("bytes").get<uint64_t>())
    throw IoError(path, "damaged: " + std::to_string(file->size()) + " bytes, " +
                            printable(expected.at("bytes").dump()) + " were written");
  return file;
}

// A file is read only if it has the size that was written, and that is not above `max_bytes`.
std::map<std::string, Array> read_tensors(const Disk& disk, const std::string& directory, const std::string& name,
                                          const json& files, uint64_t max_bytes) {
  const std::string path = directory + '/' + name;
  const json& expected = files.at(name);
  const std::unique_ptr<ReadFile> file = open_whole(disk, path, expected);
  const uint64_t size = file->size();
  if (size > max_bytes)
    throw IoError(path, "holds " + std::to_string(size) + " bytes, expected at most " + std::to_string(max_bytes) +
                            " for this run's model");
  const std::string bytes = file->read(0, size);
  if (const std::string crc = hex(crc32c(bytes)); expected.at("crc32c") != crc)
    throw IoError(path,
                  "damaged: CRC " + crc + ", " + printable(expected.at("crc32c").get<std::string>()) + " was written");
  return parse_safetensors(bytes, path).tensors;
}

// The settings that show that a checkpoint is of another run than the owner's; empty if there are none.
std::vector<SettingChange> foreign(const json& document, uint64_t updates, const CheckpointOwner& owner) {
  if (owner.settings.empty()) return {};
  if (!document.contains("settings"))
    return config_conflicts(json{{"seed", document.at("state").at("seed")}}.dump(),
                            json{{"seed", json::parse(owner.settings).value("seed", json())}}.dump(), owner.rules);
  const std::string theirs = document["settings"].dump();
  const SettingsOfRun& rules = owner.rules;
  return config_conflicts(rules.upgrade ? fixed_settings(rules.upgrade(theirs), rules) : theirs, owner.settings, rules,
                          updates > 0 ? RunStage::updates : RunStage::before_first_update);
}

void check_owner(const json& document, uint64_t updates, const CheckpointOwner& owner, const std::string& directory) {
  std::vector<SettingChange> conflicts;
  try {
    conflicts = foreign(document, updates, owner);
  } catch (const ConfigError& error) {
    throw ForeignCheckpoint(directory, std::string("is not of this run: ") + error.what());
  }
  if (!conflicts.empty()) throw ForeignCheckpoint(directory, "is of another run: " + conflicts.front().sentence());
}

// Reads state.json into `checkpoint` and returns it. Throws IoError unless it is that of the owner's checkpoint after
// `step` updates.
json read_own_state(const Disk& disk, const std::string& directory, uint64_t step, const CheckpointOwner& owner,
                    Checkpoint& checkpoint) {
  const std::string path = directory + kStateFile;
  json document = read_state_document(disk, path);
  read_state(document, path, checkpoint);
  if (checkpoint.updates != step)
    throw ForeignCheckpoint(directory, "holds the checkpoint of update " + std::to_string(checkpoint.updates) +
                                           ", expected that of update " + std::to_string(step));
  if (checkpoint.version.number != step)
    throw IoError(path, "state.number is " + std::to_string(checkpoint.version.number) + ", expected " +
                            std::to_string(step) + " like state.updates");
  check_owner(document, step, owner, directory);
  return document;
}

// Calls `read`, which reads files of a checkpoint, and returns its result. Makes its errors understandable.
template <class Read>
auto reading(const std::string& directory, Read read) {
  try {
    return read();
  } catch (const json::exception&) {
    throw IoError(directory + kStateFile, "damaged: an entry is missing or has the wrong type");
  } catch (const IoError& error) {
    if (error.error_number() != ENOTDIR) throw;
    throw IoError(directory, "is not a directory, expected one with the files of a checkpoint");
  }
}

}  // namespace

std::map<std::string, Array> read_checkpoint_model(const Disk& disk, const std::string& directory) {
  return reading(directory, [&] {
    return read_tensors(disk, directory, kModelFile, read_state_document(disk, directory + kStateFile).at("files"),
                        std::numeric_limits<uint64_t>::max());
  });
}

std::string read_checkpoint_settings(const Disk& disk, const std::string& directory) {
  return reading(directory, [&] {
    const json document = read_state_document(disk, directory + kStateFile);
    return document.contains("settings") ? document["settings"].dump() : std::string();
  });
}

std::string CheckpointStore::path_of(uint64_t step) const { return folder_ + '/' + name_of_step(step); }

std::string CheckpointStore::save(const Checkpoint& checkpoint) {
  const std::string target = path_of(checkpoint.updates);
  const std::string temporary = temporary_name(target);
  clear(temporary);
  disk_->make_directory(temporary);
  json document = new_state_document(checkpoint);
  if (!owner_.settings.empty()) document["settings"] = json::parse(owner_.settings);
  json& files = document["files"];
  try {
    write_tensors(*disk_, temporary, kModelFile, checkpoint.model, files);
    write_tensors(*disk_, temporary, kOptimizerFile, checkpoint.optimizer, files);
    if (!checkpoint.extras.empty())
      write_tensors(*disk_, temporary, kExtrasFile, extras_as_arrays(checkpoint.extras), files);
    disk_->write_atomic(temporary + kStateFile, state_text(document));
    const std::string old = target + kOldSuffix;
    const bool replaces = disk_->exists(target);
    if (replaces) {
      clear(old);
      disk_->rename(target, old);
    }
    disk_->rename(temporary, target);
    if (replaces) clear(old);
  } catch (const IoError&) {
    undo_save(target);
    throw;
  }
  return files[kModelFile]["crc32c"].get<std::string>();
}

// Call it after a failed save. If the new checkpoint is in place and only the sync of its directory failed, the old one
// stays beside it until the next save or recover().
void CheckpointStore::undo_save(const std::string& target) {
  const std::string old = target + kOldSuffix;
  try {
    disk_->remove_directory(temporary_name(target), own_files());
    if (!disk_->exists(target) && disk_->exists(old)) disk_->rename(old, target);
  } catch (const IoError&) {
    // recover() will try again. The caller reports the first error, which is the cause.
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
  constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
  const uint64_t max_bytes = weight_bytes_ ? kMaxSafetensorsHeader + kTensorsPerWeight * *weight_bytes_ : kAny;
  return reading(directory, [&] {
    Checkpoint checkpoint;
    const json document = read_own_state(*disk_, directory, step, owner_, checkpoint);
    const json& files = document.at("files");
    checkpoint.model = read_tensors(*disk_, directory, kModelFile, files, max_bytes);
    checkpoint.optimizer = read_tensors(*disk_, directory, kOptimizerFile, files, max_bytes);
    if (files.contains(kExtrasFile))
      checkpoint.extras = extras_of(read_tensors(*disk_, directory, kExtrasFile, files, kAny));
    return checkpoint;
  });
}

std::string CheckpointStore::weights_checksum(uint64_t step) const {
  const std::string directory = path_of(step);
  return reading(directory, [&] {
    Checkpoint checkpoint;
    const json document = read_own_state(*disk_, directory, step, owner_, checkpoint);
    const json& files = document.at("files");
    for (const auto& [name, expected] : files.items()) open_whole(*disk_, directory + '/' + name, expected);
    return files.at(kModelFile).at("crc32c").get<std::string>();
  });
}

std::optional<double> CheckpointStore::scalar_of(uint64_t step, const std::string& name) const {
  const std::string directory = path_of(step), path = directory + kStateFile;
  if (!disk_->exists(path)) return std::nullopt;
  try {
    Checkpoint checkpoint;
    reading(directory, [&] { read_state(read_state_document(*disk_, path), path, checkpoint); });
    const auto found = checkpoint.scalars.find(name);
    return found == checkpoint.scalars.end() ? std::nullopt : std::optional(found->second);
  } catch (const IoError& problem) {
    if (problem.is_refusal()) throw;
    return std::nullopt;
  }
}

CheckpointStore::Newest CheckpointStore::find_newest() const {
  for (int attempt = 0; attempt < kMostListings; ++attempt)
    if (std::optional<Newest> newest = find_newest(list())) return std::move(*newest);
  throw IoError(folder_, "each checkpoint was removed while it was read; raise checkpoint.keep of the run");
}

// nullopt when a trainer has removed one of them since they were listed: list again, there is a newer one.
std::optional<CheckpointStore::Newest> CheckpointStore::find_newest(const std::vector<uint64_t>& steps) const {
  Newest result;
  for (auto step = steps.rbegin(); step != steps.rend() && !result.checkpoint; ++step) {
    try {
      result.checkpoint = load(*step);
    } catch (const IoError& error) {
      if (error.is_refusal()) throw;
      if (!disk_->exists(path_of(*step))) return std::nullopt;
      const bool foreign = dynamic_cast<const ForeignCheckpoint*>(&error) != nullptr;
      result.unusable.push_back({*step, error.what(), foreign});
    }
  }
  if (!result.checkpoint && !result.unusable.empty())
    throw IoError(folder_, "no checkpoint can be used; the newest one: " + result.unusable.front().problem);
  return result;
}

std::optional<Checkpoint> CheckpointStore::load_newest() const {
  Newest newest = find_newest();
  for (const Unusable& each : newest.unusable) log_warn(kCheckpoint, each.problem + "; using the checkpoint before it");
  return std::move(newest.checkpoint);
}

void CheckpointStore::remove_leftovers() {
  for (const std::string& name : disk_->list(folder_)) {
    const std::string stem = name.substr(0, name.find('.'));
    if (!step_of_name(stem)) continue;  // this program did not write it
    const std::string path = folder_ + '/' + name, target = folder_ + '/' + stem;
    if (name == temporary_name(stem)) disk_->remove_directory(path, own_files());
    if (name != stem + kOldSuffix) continue;
    if (disk_->exists(target))
      disk_->remove_directory(path, own_files());
    else
      disk_->rename(path, target);
  }
}

std::optional<Checkpoint> CheckpointStore::recover() {
  remove_leftovers();
  Newest newest = find_newest();
  for (const Unusable& each : newest.unusable) set_aside(each);
  return std::move(newest.checkpoint);
}

void CheckpointStore::set_aside(const Unusable& unusable) {
  const std::string path = path_of(unusable.step);
  const std::string aside = free_name(*disk_, path + (unusable.foreign ? kForeignSuffix : kDamagedSuffix));
  disk_->rename(path, aside);
  log_warn(kCheckpoint, unusable.problem + "; the checkpoint is renamed to " + aside);
}

template <class Read>
auto CheckpointStore::read_or_set_aside(uint64_t step, Read read) -> std::optional<decltype(read())> {
  if (!disk_->exists(path_of(step))) return std::nullopt;
  try {
    return read();
  } catch (const ForeignCheckpoint& problem) {
    log_warn(kCheckpoint, std::string(problem.what()) + "; it is left as it is");
  } catch (const IoError& problem) {
    if (problem.is_refusal()) throw;
    set_aside({step, problem.what(), false});
  }
  return std::nullopt;
}

std::optional<std::string> CheckpointStore::check(uint64_t step) {
  return read_or_set_aside(step, [&] { return weights_checksum(step); });
}

std::optional<Checkpoint> CheckpointStore::load_checked(uint64_t step) {
  return read_or_set_aside(step, [&] { return load(step); });
}

void CheckpointStore::prune(uint64_t keep, uint64_t newest, const std::set<uint64_t>& spared) {
  std::vector<uint64_t> steps = list();
  // Such a checkpoint is not of this run: recover() has left none above the newest.
  std::erase_if(steps, [&](uint64_t step) { return step > newest; });
  if (keep == 0 || steps.size() <= keep) return;
  for (size_t i = 0; i < steps.size() - keep; ++i)
    if (!spared.contains(steps[i])) remove(steps[i]);
}

void CheckpointStore::remove(uint64_t step) {
  // Renamed first: if the removal is interrupted, no checkpoint must be left that lacks some of its files.
  const std::string path = path_of(step), temporary = temporary_name(path);
  clear(temporary);
  disk_->rename(path, temporary);
  clear(temporary);
}

// Removes the files of a checkpoint from the directory `path`. If it holds others, it is renamed, and they are kept.
void CheckpointStore::clear(const std::string& path) {
  if (disk_->remove_directory(path, own_files())) return;
  const std::string stem = path.substr(0, path.rfind('.'));
  const std::string aside = free_name(*disk_, stem + kKeptSuffix);
  disk_->rename(path, aside);
  log_warn(kCheckpoint, path + ": holds files that are not of a checkpoint; they are kept in " + aside);
}

}  // namespace troupe
