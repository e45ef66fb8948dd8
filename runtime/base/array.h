#pragma once
// Array: a dense, row-major block of numbers with a dtype and a shape, in host memory. It is what actors send to each
// other and what environments and policies read and write; no other code uses the types of a tensor library.
//
// Storage is shared by copies and by slices. The rule that makes this safe between threads: bytes are written only by
// the code that made the array, and only before the array (or a slice with those bytes) is passed on.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/float16.h"

namespace troupe {

// The numbers are part of messages and checkpoints: only append to them.
enum class DType : uint8_t { u8 = 0, i32 = 1, i64 = 2, f32 = 3, f64 = 4, f16 = 5, bf16 = 6 };
inline constexpr DType kDTypes[] = {DType::u8, DType::i32, DType::i64, DType::f32, DType::f64, DType::f16, DType::bf16};

// Bytes of one element.
size_t size_of(DType dtype);
// Whether elements are floating-point numbers; integers otherwise.
bool is_floating_point(DType dtype);
// "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64".
std::string_view name_of(DType dtype);
// The dtype of a number from a message or a file; nothing if there is none.
std::optional<DType> dtype_of_number(uint8_t number);

template <class T>
constexpr DType dtype_of();
template <> constexpr DType dtype_of<uint8_t>() { return DType::u8; }
template <> constexpr DType dtype_of<int32_t>() { return DType::i32; }
template <> constexpr DType dtype_of<int64_t>() { return DType::i64; }
template <> constexpr DType dtype_of<float>() { return DType::f32; }
template <> constexpr DType dtype_of<double>() { return DType::f64; }
template <> constexpr DType dtype_of<Float16>() { return DType::f16; }
template <> constexpr DType dtype_of<BFloat16>() { return DType::bf16; }

// Up to eight extents, stored inline.
class Shape {
 public:
  static constexpr size_t kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t i) const { return extents_[i]; }
  const int64_t* begin() const { return extents_.data(); }
  const int64_t* end() const { return extents_.data() + rank_; }
  // The product of the extents; 1 for rank 0. Throws InvariantError on overflow or a negative extent.
  int64_t elements() const;
  // This shape with `extent` in front: N and [3, 4] give [N, 3, 4].
  Shape prepended(int64_t extent) const;
  // This shape without its first `count` extents.
  Shape without_first(size_t count = 1) const;
  // "[64, 4]".
  std::string text() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<int64_t, kMaxRank> extents_{};
  uint8_t rank_ = 0;
};

class Array {
 public:
  // Empty: float32 of shape [0].
  Array() : shape_{0} {}
  // Zero-filled, 64-byte aligned.
  Array(DType dtype, Shape shape);
  // As above but with unspecified contents, for a caller that writes every byte.
  static Array uninitialized(DType dtype, Shape shape);
  // An array over memory that was allocated elsewhere: at least the shape's bytes, 64-byte aligned. The array keeps it
  // alive.
  static Array adopt(DType dtype, Shape shape, std::shared_ptr<std::byte[]> storage);
  // A copy of `values`; throws InvariantError when their number differs from the shape's.
  template <class T>
  static Array of(Shape shape, std::span<const T> values);
  template <class T>
  static Array of(Shape shape, std::initializer_list<T> values) {
    return of(shape, std::span<const T>(values.begin(), values.size()));
  }
  // [values.size()]
  template <class T>
  static Array of(const std::vector<T>& values) {
    return of({static_cast<int64_t>(values.size())}, std::span<const T>(values));
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.rank(); }
  int64_t dim(size_t i) const { return shape_[i]; }
  int64_t size() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_) * size_of(dtype_); }
  // The number of elements of one index of the first dimension.
  int64_t row_size() const {
    return rank() == 0 || shape_[0] == 0 ? shape_.without_first().elements() : elements_ / shape_[0];
  }
  size_t row_bytes() const { return static_cast<size_t>(row_size()) * size_of(dtype_); }
  bool empty() const { return elements_ == 0; }
  // Whether another array has the same storage. If not, its bytes may be written again.
  bool is_shared() const {
    if (storage_.use_count() > 1) return true;
    // use_count() orders nothing: what other threads read before they gave the storage up must come before new writes.
    std::atomic_thread_fence(std::memory_order_acquire);
    return false;
  }

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() { return data_; }
  // The elements; throws InvariantError when T is not the dtype.
  template <class T>
  std::span<const T> view() const;
  template <class T>
  std::span<T> mutable_view();

  // Rows [begin, end) of the first dimension, sharing storage.
  Array slice(int64_t begin, int64_t end) const;
  // Index `i` of the first dimension (rank falls by one), sharing storage.
  Array at(int64_t i) const;
  // The same elements under another shape of equal size, sharing storage.
  Array reshaped(Shape shape) const;
  // The same bytes under another dtype and shape of equal byte size, sharing storage.
  Array reinterpreted(DType dtype, Shape shape) const;
  // A copy with its own storage.
  Array clone() const;

  // Same dtype, shape and bytes: NaN equals the same NaN, and 0 differs from -0.
  friend bool operator==(const Array& a, const Array& b);

 private:
  void require_dtype(DType wanted) const;

  DType dtype_ = DType::f32;
  Shape shape_;
  int64_t elements_ = 0;
  std::shared_ptr<std::byte[]> storage_;
  std::byte* data_ = nullptr;
};

// Named arrays in a fixed order: an observation, a rollout's columns, a policy's tensors.
class Arrays {
 public:
  using Entry = std::pair<std::string, Array>;

  Arrays() = default;
  Arrays(std::initializer_list<Entry> entries) : entries_(entries) {}

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  const Entry& operator[](size_t i) const { return entries_[i]; }
  Entry& operator[](size_t i) { return entries_[i]; }

  // The array of that name, or nullptr.
  const Array* find(std::string_view name) const;
  Array* find(std::string_view name);
  // The array of that name; throws InvariantError that names the existing ones.
  const Array& at(std::string_view name) const;
  Array& at(std::string_view name);
  // Adds an array, or replaces the one of that name.
  void set(std::string name, Array array);
  void clear() { entries_.clear(); }

  size_t bytes() const;
  friend bool operator==(const Arrays&, const Arrays&) = default;

 private:
  std::vector<Entry> entries_;
};

template <class T>
Array Array::of(Shape shape, std::span<const T> values) {
  Array result = uninitialized(dtype_of<T>(), shape);
  TROUPE_CHECK(result.size() == static_cast<int64_t>(values.size()), shape.text(), values.size());
  std::copy(values.begin(), values.end(), result.mutable_view<T>().begin());
  return result;
}

template <class T>
std::span<const T> Array::view() const {
  require_dtype(dtype_of<T>());
  return {reinterpret_cast<const T*>(data_), static_cast<size_t>(elements_)};
}

template <class T>
std::span<T> Array::mutable_view() {
  require_dtype(dtype_of<T>());
  return {reinterpret_cast<T*>(data_), static_cast<size_t>(elements_)};
}

}  // namespace troupe
