#pragma once
// What an update says of one shard, as plain values one after the other that other ranks can be told: ShardNumbers
// hold structures of doubles, ShardBytes columns of any type, for what is large. Whoever reads them takes the same
// types in the same order. Plain values; any thread.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "algorithms/common/running_normalizer.h"
#include "runtime/base/errors.h"

namespace troupe {

using ShardNumbers = std::vector<double>;
using ShardBytes = std::vector<uint8_t>;

// Any plain type for bytes; a double, or a structure of doubles alone, for doubles.
template <class T, class Unit>
concept MadeOf = std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(Unit) == 0 &&
                 (std::same_as<Unit, uint8_t> || alignof(T) == alignof(Unit));

template <class Unit, MadeOf<Unit> T>
void put_all(std::vector<Unit>& units, std::span<const T> values) {
  const size_t end = units.size();
  units.resize(end + values.size_bytes() / sizeof(Unit));
  if (!values.empty()) std::memcpy(units.data() + end, values.data(), values.size_bytes());
}

template <class Unit, MadeOf<Unit> T>
void put(std::vector<Unit>& units, const T& value) {
  put_all(units, std::span<const T>(&value, 1));
}

// The number of values of a column, and the values.
template <MadeOf<uint8_t> T>
void put(ShardBytes& bytes, const std::vector<T>& column) {
  put(bytes, static_cast<uint64_t>(column.size()));
  put_all(bytes, std::span<const T>(column));
}

inline void put(ShardNumbers& numbers, const RunningNormalizer& value) {
  put(numbers, value.count());
  for (const std::vector<double>* each : {&value.mean(), &value.m2()}) put_all(numbers, std::span<const double>(*each));
}

// Throws InvariantError where there are fewer units than are read.
template <class Unit>
class ShardReader {
 public:
  // They must outlive this.
  explicit ShardReader(std::span<const Unit> units) : units_(units) {}

  template <MadeOf<Unit> T>
  T take() {
    T result;
    std::memcpy(static_cast<void*>(&result), next<T>(1), sizeof(T));
    return result;
  }
  template <MadeOf<Unit> T>
  std::vector<T> take_all(size_t count) {
    const Unit* values = next<T>(count);
    std::vector<T> result(count);
    if (count > 0) std::memcpy(result.data(), values, count * sizeof(T));
    return result;
  }
  template <class T>
  void take_column(std::vector<T>& column) {
    column = take_all<T>(take<uint64_t>());
  }
  RunningNormalizer take_normalizer(int64_t features) {
    const auto count = static_cast<size_t>(features);
    const auto samples = take<double>();
    std::vector<double> mean = take_all<double>(count), m2 = take_all<double>(count);
    return {samples, std::move(mean), std::move(m2)};
  }
  // All of them must have been read.
  void end() const { TROUPE_CHECK(units_.empty(), units_.size()); }

 private:
  // Where `count` values of T begin.
  template <class T>
  const Unit* next(size_t count) {
    TROUPE_CHECK(count <= units_.size_bytes() / sizeof(T), count, units_.size_bytes(), sizeof(T));
    const Unit* result = units_.data();
    units_ = units_.subspan(count * sizeof(T) / sizeof(Unit));
    return result;
  }

  std::span<const Unit> units_;
};

using NumberReader = ShardReader<double>;
using ByteReader = ShardReader<uint8_t>;

}  // namespace troupe
