#include "runtime/run_folder/checkpoint_state.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/checkpoint.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr int kFormat = 2;
constexpr int kOldestFormat = 1;              // has no settings; only its seed shows of which run it is
constexpr uint64_t kMaxStateBytes = 1 << 20;  // of state.json

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

// Refuses -1 and 1.5, which nlohmann/json would convert.
uint64_t count_in(const json& state, const char* key, uint64_t most, const std::string& path) {
  const auto found = state.find(key);
  if (found == state.end()) throw IoError(path, std::string("state.") + key + " is missing");
  if (found->is_number_unsigned() && found->get<uint64_t>() <= most) return found->get<uint64_t>();
  throw IoError(path, std::string("state.") + key + " is " + printable(found->dump()) +
                          ", expected an integer in [0, " + std::to_string(most) + ']');
}

}  // namespace

std::string document_crc(const json& document) {
  json covered = document;
  covered.erase("crc32c");
  char text[16];
  std::snprintf(text, sizeof text, "%08x", crc32c(covered.dump()));
  return text;
}

json new_state_document(const Checkpoint& checkpoint) {
  json scalars = json::object();
  for (const auto& [name, value] : checkpoint.scalars) scalars[name] = number_json(value);
  const json state = {{"epoch", checkpoint.version.epoch}, {"number", checkpoint.version.number},
                      {"env_steps", checkpoint.env_steps}, {"updates", checkpoint.updates},
                      {"seed", checkpoint.seed},           {"scalars", std::move(scalars)}};
  return {{"format", kFormat}, {"state", state}, {"files", json::object()}};
}

std::string state_text(json document) {
  document["crc32c"] = document_crc(document);
  return document.dump(2) + '\n';
}

json read_state_document(const Disk& disk, const std::string& path) {
  const json document = parse_stored(disk.read(path, kMaxStateBytes), path);
  if (!document.is_object() || !document.contains("crc32c") || document["crc32c"] != document_crc(document))
    throw IoError(path, "damaged: its contents do not fit its CRC");
  const auto format = document.find("format");
  if (format == document.end()) throw IoError(path, "has no format");
  if (!format->is_number_integer() || *format < kOldestFormat || *format > kFormat)
    throw IoError(path, "has format " + printable(format->dump()) + ", this program reads formats " +
                            std::to_string(kOldestFormat) + " to " + std::to_string(kFormat));
  return document;
}

void read_state(const json& document, const std::string& path, Checkpoint& checkpoint) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kMostEpoch = std::numeric_limits<uint32_t>::max() - 1;  // the next start adds 1
  const json& state = document.at("state");
  checkpoint.version.epoch = static_cast<uint32_t>(count_in(state, "epoch", kMostEpoch, path));
  checkpoint.version.number = count_in(state, "number", kMost, path);
  checkpoint.env_steps = count_in(state, "env_steps", kMost, path);
  checkpoint.updates = count_in(state, "updates", kMost, path);
  checkpoint.seed = count_in(state, "seed", kMost, path);
  for (const auto& [name, value] : state.at("scalars").items()) checkpoint.scalars[name] = number_of(value);
}

}  // namespace troupe
