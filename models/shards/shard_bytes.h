#pragma once
// ShardBytes: what an update says of one shard that is too large for numbers: columns of plain values, one after the
// other, in an array that other ranks can be told. Whoever reads it takes columns of the same types in the same order.
// One thread.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/errors.h"

namespace troupe {

class ShardBytes {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const std::vector<T>& column) {
    const auto count = static_cast<uint64_t>(column.size());
    append(&count, sizeof(count));
    append(column.data(), column.size() * sizeof(T));
  }
  // [N] uint8
  Array array() const { return Array::of(bytes_); }

 private:
  void append(const void* from, size_t count) {
    const auto* begin = static_cast<const uint8_t*>(from);
    bytes_.insert(bytes_.end(), begin, begin + count);
  }

  std::vector<uint8_t> bytes_;
};

// Throws InvariantError where there are fewer bytes than are read.
class ByteReader {
 public:
  // [N] uint8; it must outlive this.
  explicit ByteReader(const Array& array) : bytes_(array.view<uint8_t>()) {}

  template <class T>
    requires std::is_trivially_copyable_v<T>
  void take(std::vector<T>& column) {
    uint64_t count = 0;
    std::memcpy(&count, take(sizeof(count)).data(), sizeof(count));
    TROUPE_CHECK(count <= bytes_.size() / sizeof(T), count, bytes_.size(), sizeof(T));
    column.resize(count);
    const std::span<const uint8_t> values = take(count * sizeof(T));
    if (count > 0) std::memcpy(column.data(), values.data(), values.size());
  }
  // All of them must have been read.
  void end() const { TROUPE_CHECK(bytes_.empty(), bytes_.size()); }

 private:
  std::span<const uint8_t> take(size_t count) {
    TROUPE_CHECK(count <= bytes_.size(), count, bytes_.size());
    const std::span<const uint8_t> result = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return result;
  }

  std::span<const uint8_t> bytes_;
};

}  // namespace troupe
