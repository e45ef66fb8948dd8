#include "runtime/run_folder/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kDTypeNames[] = {{DType::u8, "U8"},   {DType::i32, "I32"},   {DType::i64, "I64"},
                                     {DType::f16, "F16"}, {DType::bf16, "BF16"}, {DType::f32, "F32"},
                                     {DType::f64, "F64"}};
static_assert(std::size(kDTypeNames) == std::size(kDTypes));

const char* format_name(DType dtype) {
  for (const DTypeName& entry : kDTypeNames)
    if (entry.dtype == dtype) return entry.name;
  TROUPE_CHECK(false, static_cast<int>(dtype));
  return "";
}

// One array as the header describes it.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// A text from the file as an error shows it.
std::string quoted(const std::string& text) { return '"' + printable(text) + '"'; }

[[noreturn]] void fail(const std::string& problem) { throw std::runtime_error(problem); }

DType parse_dtype(const json& value) {
  if (!value.is_string()) fail("dtype is not a string");
  for (const DTypeName& entry : kDTypeNames)
    if (value == entry.name) return entry.dtype;
  std::string known;
  for (const DTypeName& entry : kDTypeNames) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  fail("dtype " + quoted(value.get<std::string>()) + " is not one of " + known);
}

Shape parse_shape(const json& value) {
  if (!value.is_array()) fail("shape is not an array");
  if (value.size() > Shape::kMaxRank)
    fail("shape has " + std::to_string(value.size()) + " dimensions, at most 8 are supported");
  std::vector<int64_t> extents;
  for (const json& extent : value) {
    if (!extent.is_number_unsigned() || extent.get<uint64_t>() > std::numeric_limits<int64_t>::max())
      fail("shape holds " + printable(extent.dump()));
    extents.push_back(extent.get<int64_t>());
  }
  return Shape(extents);
}

// The size of an array in bytes; nullopt if it does not fit into 63 bits.
std::optional<uint64_t> bytes_of(DType dtype, const Shape& shape) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

Entry parse_entry(const std::string& name, const json& value, uint64_t data_bytes) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    fail("is not an object of dtype, shape and data_offsets");
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    fail("data_offsets is not a pair of unsigned integers");
  Entry entry{name, parse_dtype(value["dtype"]), parse_shape(value["shape"]), offsets[0], offsets[1]};
  const auto offsets_text = "data_offsets " + offsets.dump();
  if (entry.begin > entry.end || entry.end > data_bytes)
    fail(offsets_text + " lie outside the " + std::to_string(data_bytes) + " data bytes");
  const std::optional<uint64_t> bytes = bytes_of(entry.dtype, entry.shape);
  if (!bytes || *bytes != entry.end - entry.begin)
    fail(offsets_text + " do not fit " + format_name(entry.dtype) + ' ' + entry.shape.text());
  return entry;
}

// The arrays in the order of their bytes, which they cover exactly once.
std::vector<Entry> parse_entries(const json& header, uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) continue;
    try {
      entries.push_back(parse_entry(name, value, data_bytes));
    } catch (const std::runtime_error& error) {
      fail("tensor " + quoted(name) + ": " + error.what());
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  uint64_t covered = 0;
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    const std::string begins = "tensor " + quoted(entry.name) + " begins at data byte " + std::to_string(entry.begin);
    if (entry.begin > covered) fail(begins + ", after a gap that begins at " + std::to_string(covered));
    if (entry.begin < covered)
      fail(begins + " and overlaps tensor " + quoted(before->name) + ", which ends at " + std::to_string(covered));
    covered = entry.end;
    before = &entry;
  }
  if (covered != data_bytes)
    fail("holds " + std::to_string(data_bytes) + " data bytes, the header describes " + std::to_string(covered));
  return entries;
}

std::map<std::string, std::string> parse_metadata(const json& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find(kMetadataKey);
  if (found == header.end()) return metadata;
  if (!found->is_object()) fail("__metadata__ is not an object");
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) fail("__metadata__ " + quoted(key) + " is not a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The length of the header of a file of `size` bytes that begins with `bytes`.
uint64_t header_length(std::string_view bytes, uint64_t size) {
  if (bytes.size() < kLengthBytes)
    fail("truncated: " + std::to_string(bytes.size()) + " bytes, the header's length takes 8");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxSafetensorsHeader)
    fail("the header claims " + std::to_string(length) + " bytes, at most " + std::to_string(kMaxSafetensorsHeader) +
         " are allowed");
  if (length > size - kLengthBytes)
    fail("truncated: the header claims " + std::to_string(length) + " bytes, " + std::to_string(size - kLengthBytes) +
         " are there");
  return length;
}

json parse_header(std::string_view text) {
  if (!text.starts_with('{')) fail("the header does not begin with {");
  return parse_strict(text, "bad header");
}

template <class Function>
auto reading_tensors(const std::string& source, const Function& function) {
  try {
    return function();
  } catch (const std::runtime_error& error) {
    throw IoError(source, std::string("not a valid safetensors file: ") + error.what());
  }
}

}  // namespace

std::vector<std::string_view> safetensors_parts(const std::map<std::string, Array>& tensors,
                                                const std::map<std::string, std::string>& metadata,
                                                const std::string& source, std::string& header) {
  std::vector<const std::pair<const std::string, Array>*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(),
                   [](auto* a, auto* b) { return size_of(a->second.dtype()) > size_of(b->second.dtype()); });
  nlohmann::ordered_json description = nlohmann::ordered_json::object();
  if (!metadata.empty()) description[kMetadataKey] = metadata;
  std::vector<std::string_view> parts{{}};
  uint64_t offset = 0;
  for (const auto* item : order) {
    const auto& [name, array] = *item;
    if (name == kMetadataKey) throw IoError(source, "a tensor cannot be called __metadata__");
    description[name] = {{"dtype", format_name(array.dtype())},
                         {"shape", std::vector<int64_t>(array.shape().begin(), array.shape().end())},
                         {"data_offsets", {offset, offset + array.bytes()}}};
    if (array.bytes() > 0) parts.emplace_back(reinterpret_cast<const char*>(array.data()), array.bytes());
    offset += array.bytes();
  }
  std::string text;
  try {
    text = description.dump();
  } catch (const json::type_error&) {
    throw IoError(source, "a tensor's name or the metadata is not UTF-8");
  }
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t length = text.size();
  header.assign(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, kLengthBytes);
  header += text;
  parts[0] = header;
  return parts;
}

Safetensors parse_safetensors(std::string_view bytes, const std::string& source) {
  return reading_tensors(source, [&] {
    const uint64_t length = header_length(bytes, bytes.size());
    const json header = parse_header(bytes.substr(kLengthBytes, length));
    bytes.remove_prefix(kLengthBytes + length);
    Safetensors result;
    result.metadata = parse_metadata(header);
    for (const Entry& entry : parse_entries(header, bytes.size())) {
      Array array = Array::uninitialized(entry.dtype, entry.shape);
      if (array.bytes() > 0) std::memcpy(array.mutable_data(), bytes.data() + entry.begin, array.bytes());
      result.tensors.emplace(entry.name, std::move(array));
    }
    return result;
  });
}

std::vector<SafetensorsEntry> read_safetensors_entries(const ReadFile& file, const std::string& source) {
  const std::string begin = file.read(0, kLengthBytes);
  const uint64_t length = reading_tensors(source, [&] { return header_length(begin, file.size()); });
  const std::string text = file.read(kLengthBytes, length);
  return reading_tensors(source, [&] {
    const uint64_t data = kLengthBytes + length;
    const json header = parse_header(text);
    parse_metadata(header);
    std::vector<SafetensorsEntry> result;
    for (const Entry& entry : parse_entries(header, file.size() - data))
      result.push_back({entry.name, entry.dtype, entry.shape, data + entry.begin, entry.end - entry.begin});
    return result;
  });
}

void write_safetensors(Disk& disk, const std::string& path, const std::map<std::string, Array>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::string header;
  disk.write_atomic(path, safetensors_parts(tensors, metadata, path, header));
}

Safetensors read_safetensors(const Disk& disk, const std::string& path) {
  return parse_safetensors(disk.read(path, kMaxSafetensors), path);
}

}  // namespace troupe
