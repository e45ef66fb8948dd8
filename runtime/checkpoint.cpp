#include "runtime/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "runtime/crc32c.h"
#include "runtime/log.h"
#include "runtime/safetensors.h"
#include "runtime/strict_json.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr size_t kNameDigits = 12;
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
          {"seed", checkpoint.seed},           {"config_hash", checkpoint.config_hash},
          {"scalars", std::move(scalars)}};
}

void read_state(const json& state, Checkpoint& checkpoint) {
  checkpoint.version = {state.at("epoch").get<uint32_t>(), state.at("number").get<uint64_t>()};
  state.at("env_steps").get_to(checkpoint.env_steps);
  state.at("updates").get_to(checkpoint.updates);
  state.at("seed").get_to(checkpoint.seed);
  state.at("config_hash").get_to(checkpoint.config_hash);
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

std::map<std::string, Array> read_tensors(const Disk& disk, const std::string& directory, const std::string& name,
                                          const json& files) {
  const std::string path = directory + '/' + name;
  const json& expected = files.at(name);
  const std::string bytes = disk.read(path);
  if (bytes.size() != expected.at("bytes").get<uint64_t>())
    throw IoError(
        path, "damaged: " + std::to_string(bytes.size()) + " bytes, " + expected.at("bytes").dump() + " were written");
  if (const std::string crc = hex(crc32c(bytes)); expected.at("crc32c") != crc)
    throw IoError(path, "damaged: CRC " + crc + ", " + expected.at("crc32c").get<std::string>() + " was written");
  return parse_safetensors(bytes, path).tensors;
}

// The CRC covers the meaning of state.json, not its white space.
std::string crc_of_state(const json& document) {
  json covered = document;
  covered.erase("crc32c");
  return hex(crc32c(covered.dump()));
}

json read_state_file(const Disk& disk, const std::string& path) {
  const std::string text = disk.read(path);
  json document;
  try {
    document = parse_strict(text, "damaged");
  } catch (const ConfigError& error) {
    throw IoError(path, error.what());
  }
  if (!document.is_object() || !document.contains("crc32c") || document["crc32c"] != crc_of_state(document))
    throw IoError(path, "damaged: its contents do not fit its CRC");
  if (document.at("format") != kFormat)
    throw IoError(
        path, "has format " + document.at("format").dump() + ", this program reads format " + std::to_string(kFormat));
  return document;
}

}  // namespace

std::string CheckpointStore::path_of(uint64_t step) const { return folder_ + '/' + name_of_step(step); }

void CheckpointStore::save(uint64_t step, const Checkpoint& checkpoint) {
  const std::string target = path_of(step);
  const std::string temporary = temporary_name(target);
  disk_->remove(temporary);
  disk_->make_directory(temporary);
  json document = {{"format", kFormat}, {"state", state_json(checkpoint)}, {"files", json::object()}};
  json& files = document["files"];
  try {
    write_tensors(*disk_, temporary, "model.safetensors", checkpoint.model, files);
    write_tensors(*disk_, temporary, "optimizer.safetensors", checkpoint.optimizer, files);
    if (!checkpoint.extras.empty())
      write_tensors(*disk_, temporary, "extras.safetensors", extras_as_arrays(checkpoint.extras), files);
    document["crc32c"] = crc_of_state(document);
    disk_->write_atomic(temporary + kStateFile, document.dump(2) + '\n');
    const bool replaces = disk_->exists(target);
    if (replaces) disk_->rename(target, target + kOldSuffix);
    disk_->rename(temporary, target);
    if (replaces) disk_->remove(target + kOldSuffix);
  } catch (const IoError&) {
    try {
      remove_leftovers();
    } catch (const IoError&) {
      // The disk refuses this too: recover() will do it. The first error says why.
    }
    throw;
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
  Checkpoint checkpoint;
  try {
    const json document = read_state_file(*disk_, state_path);
    const json& files = document.at("files");
    read_state(document.at("state"), checkpoint);
    checkpoint.model = read_tensors(*disk_, directory, "model.safetensors", files);
    checkpoint.optimizer = read_tensors(*disk_, directory, "optimizer.safetensors", files);
    if (files.contains("extras.safetensors"))
      checkpoint.extras = extras_of(read_tensors(*disk_, directory, "extras.safetensors", files));
  } catch (const json::exception& error) {
    throw IoError(state_path, std::string("damaged: ") + error.what());
  }
  return checkpoint;
}

CheckpointStore::Newest CheckpointStore::find_newest() const {
  Newest result;
  const std::vector<uint64_t> steps = list();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      result.checkpoint = load(*step);
      return result;
    } catch (const IoError& error) {
      log_warn(kComponent, std::string(error.what()) + (step + 1 == steps.rend() ? "; no older checkpoint is left"
                                                                                 : "; using the checkpoint before it"));
      result.damaged.push_back(*step);
    }
  }
  return result;
}

std::optional<Checkpoint> CheckpointStore::load_newest() const { return find_newest().checkpoint; }

void CheckpointStore::remove_leftovers() {
  for (const std::string& name : disk_->list(folder_)) {
    const std::string path = folder_ + '/' + name;
    if (is_temporary_name(name)) disk_->remove(path);
    if (!name.ends_with(kOldSuffix)) continue;
    const std::string target = path.substr(0, path.size() - std::string_view(kOldSuffix).size());
    if (disk_->exists(target))
      disk_->remove(path);
    else
      disk_->rename(path, target);
  }
}

std::optional<Checkpoint> CheckpointStore::recover() {
  remove_leftovers();
  Newest newest = find_newest();
  if (!newest.checkpoint)
    return std::nullopt;  // the owner decides; nothing is set aside, so that asking again gives the same
  for (const uint64_t step : newest.damaged) {
    disk_->remove(path_of(step) + kDamagedSuffix);
    disk_->rename(path_of(step), path_of(step) + kDamagedSuffix);
  }
  return std::move(newest.checkpoint);
}

void CheckpointStore::prune(uint64_t keep) {
  const std::vector<uint64_t> steps = list();
  if (keep == 0 || steps.size() <= keep) return;
  for (size_t i = 0; i < steps.size() - keep; ++i) {
    // Renamed first: a removal that is cut short must not leave a checkpoint without some of its files.
    const std::string path = path_of(steps[i]);
    disk_->rename(path, temporary_name(path));
    disk_->remove(temporary_name(path));
  }
}

}  // namespace troupe
