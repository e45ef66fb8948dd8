#pragma once
// The arrays that the estimators of this folder read and write: one number per step of each of B sequences, dense or
// strided, float32 or bfloat16. Views: they own nothing.

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>

namespace troupe {

// The order of steps in memory. In both layouts the elements of one row of memory are adjacent.
enum class Layout : uint8_t {
  time = 0,  // [T, B]: a row of memory is one step of all sequences, as in rollouts
  rows = 1,  // [B, T]: a row of memory is one sequence
};

enum class Element : uint8_t { float32 = 0, bfloat16 = 1 };

// The stride of an array whose rows follow each other without a gap.
inline constexpr int64_t kDense = std::numeric_limits<int64_t>::min();

// Numbers to read. Default-constructed or from an empty range = absent.
struct FloatView {
  const void* data = nullptr;
  std::size_t size = 0;     // number of elements that the caller guarantees: T * B
  int64_t stride = kDense;  // elements from one row of memory to the next; may be 0 or negative
  Element element = Element::float32;

  FloatView() = default;
  FloatView(const void* array, Element type, std::size_t count, int64_t row_stride = kDense)
      : data(array), size(count), stride(row_stride), element(type) {}
  // From any dense array of float: std::vector, std::span.
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const float>>
  FloatView(const Range& range)
      : data(std::span<const float>(range).empty() ? nullptr : std::span<const float>(range).data()),
        size(std::span<const float>(range).size()) {}
};

// Flags to read, one byte each; nonzero = set. Default-constructed or from an empty range = absent.
struct FlagView {
  const uint8_t* data = nullptr;
  std::size_t size = 0;
  int64_t stride = kDense;

  FlagView() = default;
  FlagView(const uint8_t* array, std::size_t count, int64_t row_stride = kDense)
      : data(array), size(count), stride(row_stride) {}
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const uint8_t>>
  FlagView(const Range& range)
      : data(std::span<const uint8_t>(range).empty() ? nullptr : std::span<const uint8_t>(range).data()),
        size(std::span<const uint8_t>(range).size()) {}
};

// Numbers to write; rows must not overlap.
struct OutputView {
  float* data = nullptr;
  std::size_t size = 0;
  int64_t stride = kDense;

  OutputView() = default;
  OutputView(float* array, std::size_t count, int64_t row_stride = kDense)
      : data(array), size(count), stride(row_stride) {}
  template <class Range>
    requires std::convertible_to<Range&, std::span<float>>
  OutputView(Range&& range)
      : data(std::span<float>(range).empty() ? nullptr : std::span<float>(range).data()),
        size(std::span<float>(range).size()) {}
};

// What the outputs contain where `mask` is 0.
enum class Outside : uint8_t {
  zero = 0,
  carry = 1,  // the value that the recurrence carries past the step, as in verl (github.com/volcengine/verl)
};

}  // namespace troupe
