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

// TFRecord masks CRCs because a CRC over data that holds CRCs is weak.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  put_key(out, kEventWallTime, Wire::fixed64);
  put_raw(out, wall_time);
  if (step != 0) {
    put_key(out, kEventStep, Wire::varint);
    put_varint(out, static_cast<uint64_t>(step));
  }
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

std::string event_restart(double wall_time, int64_t step) {
  std::string session;
  put_key(session, kSessionStatus, Wire::varint);
  put_varint(session, kSessionStart);
  std::string out = event(wall_time, step);
  put_bytes(out, kEventSessionLog, session);
  return out;
}

std::string event_file_name(double wall_time, int index) {
  char name[64];
  std::snprintf(name, sizeof name, "events.out.tfevents.%010lld.troupe.%d", static_cast<long long>(wall_time), index);
  return name;
}

EventWriter::EventWriter(std::unique_ptr<AppendFile> file, double wall_time, std::optional<int64_t> resumed_at)
    : file_(std::move(file)), pending_(tfrecord(event_file_version(wall_time))) {
  if (resumed_at) pending_ += tfrecord(event_restart(wall_time, *resumed_at));
}

void EventWriter::add(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  file_->append(pending_ + tfrecord(event_scalars(wall_time, step, scalars)));
  pending_.clear();
}

}  // namespace troupe
