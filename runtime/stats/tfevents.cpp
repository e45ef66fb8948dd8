#include "runtime/stats/tfevents.h"

#include <bit>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/base/crc32c.h"

namespace troupe {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

// Field numbers of the messages Event, Summary, Summary.Value and SessionLog.
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5, kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1, kValueSimple = 2;
constexpr uint32_t kValueTensor = 8, kValueMetadata = 9;
constexpr uint32_t kTensorType = 1, kTensorShape = 2, kTensorFloats = 5, kShapeDimension = 2, kDimensionSize = 1;
constexpr uint64_t kFloatTensor = 1;
constexpr uint32_t kMetadataPlugin = 1, kMetadataClass = 4, kPluginName = 1, kPluginContent = 2;
constexpr uint64_t kTensorClass = 2;
// Of HParamsPluginData and SessionStartInfo, of an entry of its map, and of google.protobuf.Value.
constexpr uint32_t kHParamsStart = 3, kStartHParams = 1, kStartTime = 5, kEntryKey = 1, kEntryValue = 2;
constexpr uint32_t kNumberValue = 2, kStringValue = 3, kBoolValue = 4;
constexpr uint32_t kSessionStatus = 1;
constexpr uint64_t kSessionStart = 1;

enum class Wire : uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
void put_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, Wire wire) { put_varint(out, field << 3 | static_cast<uint32_t>(wire)); }

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_number(std::string& out, uint32_t field, uint64_t number) {
  put_key(out, field, Wire::varint);
  put_varint(out, number);
}

void put_double(std::string& out, uint32_t field, double number) {
  put_key(out, field, Wire::fixed64);
  put_raw(out, number);
}

std::string hparam_value(const HParam& hparam) {
  std::string out;
  if (const auto* number = std::get_if<double>(&hparam))
    put_double(out, kNumberValue, *number);
  else if (const auto* flag = std::get_if<bool>(&hparam))
    put_number(out, kBoolValue, *flag ? 1 : 0);
  else
    put_bytes(out, kStringValue, std::get<std::string>(hparam));
  return out;
}

// One zero, for a value that has nothing but its metadata.
std::string some_tensor() {
  std::string dimension, shape, tensor, zero;
  put_number(dimension, kDimensionSize, 1);
  put_bytes(shape, kShapeDimension, dimension);
  put_number(tensor, kTensorType, kFloatTensor);
  put_bytes(tensor, kTensorShape, shape);
  put_raw(zero, 0.0f);
  put_bytes(tensor, kTensorFloats, zero);
  return tensor;
}

// TFRecord masks CRCs because a CRC over data that holds CRCs is weak.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  put_double(out, kEventWallTime, wall_time);
  if (step != 0) put_number(out, kEventStep, static_cast<uint64_t>(step));
  return out;
}

}  // namespace

std::string tfrecord(std::string_view data) {
  std::string out;
  put_raw(out, static_cast<uint64_t>(data.size()));
  put_raw(out, masked_crc(out));
  out += data;
  put_raw(out, masked_crc(data));
  return out;
}

std::string event_file_version(double wall_time) {
  std::string out = event(wall_time, 0);
  put_bytes(out, kEventFileVersion, "brain.Event:2");
  return out;
}

std::string event_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, kValueTag, tag);
    put_key(value, kValueSimple, Wire::fixed32);
    put_raw(value, static_cast<float>(number));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string out = event(wall_time, step);
  put_bytes(out, kEventSummary, summary);
  return out;
}

std::string event_hparams(double wall_time, const HParams& hparams) {
  std::string start, content, plugin, metadata, value, summary;
  for (const auto& [name, hparam] : hparams) {
    std::string entry;
    put_bytes(entry, kEntryKey, name);
    put_bytes(entry, kEntryValue, hparam_value(hparam));
    put_bytes(start, kStartHParams, entry);
  }
  put_double(start, kStartTime, wall_time);
  put_bytes(content, kHParamsStart, start);
  put_bytes(plugin, kPluginName, "hparams");
  put_bytes(plugin, kPluginContent, content);
  put_bytes(metadata, kMetadataPlugin, plugin);
  put_number(metadata, kMetadataClass, kTensorClass);
  put_bytes(value, kValueTag, "_hparams_/session_start_info");
  put_bytes(value, kValueTensor, some_tensor());
  put_bytes(value, kValueMetadata, metadata);
  put_bytes(summary, kSummaryValue, value);
  std::string out = event(wall_time, 0);
  put_bytes(out, kEventSummary, summary);
  return out;
}

std::string event_restart(double wall_time, int64_t step) {
  std::string session;
  put_number(session, kSessionStatus, kSessionStart);
  std::string out = event(wall_time, step);
  put_bytes(out, kEventSessionLog, session);
  return out;
}

std::string event_file_name(double wall_time, int index) {
  char name[64];
  std::snprintf(name, sizeof name, "events.out.tfevents.%010lld.troupe.%d", static_cast<long long>(wall_time), index);
  return name;
}

EventWriter::EventWriter(std::unique_ptr<AppendFile> file, double wall_time, const HParams& hparams,
                         std::optional<int64_t> resumed_at)
    : file_(std::move(file)), pending_(tfrecord(event_file_version(wall_time))) {
  if (!hparams.empty()) pending_ += tfrecord(event_hparams(wall_time, hparams));
  if (resumed_at) pending_ += tfrecord(event_restart(wall_time, *resumed_at));
}

void EventWriter::add(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  file_->append(pending_ + tfrecord(event_scalars(wall_time, step, scalars)));
  pending_.clear();
}

}  // namespace troupe
