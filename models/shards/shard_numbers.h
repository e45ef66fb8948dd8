#pragma once
// ShardNumbers: what an update says of one shard, as numbers that other ranks can be told: structures of doubles, one
// after the other. Whoever reads them names the same structures in the same order. Plain values; any thread.

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "algorithms/common/running_normalizer.h"
#include "runtime/base/errors.h"

namespace troupe {

using ShardNumbers = std::vector<double>;

// A double, or a structure of doubles alone.
template <class T>
concept OfDoubles = std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(double) == 0 && alignof(T) == alignof(double);

template <OfDoubles T>
void put(ShardNumbers& numbers, const T& value) {
  const size_t end = numbers.size();
  numbers.resize(end + sizeof(T) / sizeof(double));
  std::memcpy(numbers.data() + end, &value, sizeof(T));
}

inline void put(ShardNumbers& numbers, const RunningNormalizer& value) {
  numbers.push_back(value.count());
  for (const std::vector<double>* each : {&value.mean(), &value.m2()})
    numbers.insert(numbers.end(), each->begin(), each->end());
}

// Throws InvariantError where there are fewer numbers than are read.
class NumberReader {
 public:
  explicit NumberReader(std::span<const double> numbers) : numbers_(numbers) {}

  template <OfDoubles T>
  T take() {
    T result;
    std::memcpy(static_cast<void*>(&result), take(sizeof(T) / sizeof(double)).data(), sizeof(T));
    return result;
  }
  RunningNormalizer take_normalizer(int64_t features) {
    const auto count = static_cast<size_t>(features);
    const double samples = take<double>();
    const std::span<const double> mean = take(count), m2 = take(count);
    return {samples, {mean.begin(), mean.end()}, {m2.begin(), m2.end()}};
  }
  // All of them must have been read.
  void end() const { TROUPE_CHECK(numbers_.empty(), numbers_.size()); }

 private:
  std::span<const double> take(size_t count) {
    TROUPE_CHECK(count <= numbers_.size(), count, numbers_.size());
    const std::span<const double> result = numbers_.first(count);
    numbers_ = numbers_.subspan(count);
    return result;
  }

  std::span<const double> numbers_;
};

}  // namespace troupe
