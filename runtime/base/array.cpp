#include "runtime/base/array.h"

#include <cstring>
#include <limits>
#include <new>

#include "runtime/base/large_blocks.h"

namespace troupe {

namespace {

constexpr std::align_val_t kAlignment{LargeBlocks::kAlignment};

// AddressSanitizer finds a use after free only if blocks are not reused.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kRecycle = false;
#else
constexpr bool kRecycle = true;
#endif

std::shared_ptr<std::byte[]> allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (kRecycle && bytes >= LargeBlocks::kLeast)
    return {LargeBlocks::shared().take(bytes), [bytes](std::byte* p) { LargeBlocks::shared().give_back(p, bytes); }};
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  return {memory, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return 1;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i32:
    case DType::f32: return 4;
    case DType::i64:
    case DType::f64: return 8;
  }
  TROUPE_CHECK(false, static_cast<int>(dtype));
  return 0;
}

bool is_floating_point(DType dtype) {
  switch (dtype) {
    case DType::u8:
    case DType::i32:
    case DType::i64: return false;
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64: return true;
  }
  TROUPE_CHECK(false, static_cast<int>(dtype));
  return false;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::u8: return "uint8";
    case DType::i32: return "int32";
    case DType::i64: return "int64";
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
  }
  return "unknown";
}

std::optional<DType> dtype_of_number(uint8_t number) {
  for (const DType dtype : kDTypes)
    if (static_cast<uint8_t>(dtype) == number) return dtype;
  return std::nullopt;
}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<uint8_t>(extents.size())) {
  TROUPE_CHECK(extents.size() <= kMaxRank, extents.size());
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int64_t extent : *this) {
    TROUPE_CHECK(extent >= 0, text());
    TROUPE_CHECK(!__builtin_mul_overflow(product, extent, &product), text());
  }
  return product;
}

Shape Shape::prepended(int64_t extent) const {
  TROUPE_CHECK(rank_ < kMaxRank, text());
  Shape result;
  result.rank_ = static_cast<uint8_t>(rank_ + 1);
  result.extents_[0] = extent;
  std::copy(begin(), end(), result.extents_.begin() + 1);
  return result;
}

Shape Shape::without_first(size_t count) const {
  return count >= rank_ ? Shape{} : Shape(std::span(begin() + count, rank_ - count));
}

std::string Shape::text() const {
  std::string out = "[";
  for (size_t i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(extents_[i]);
  return out + "]";
}

Array Array::uninitialized(DType dtype, Shape shape) {
  int64_t bytes = 0;
  TROUPE_CHECK(!__builtin_mul_overflow(shape.elements(), static_cast<int64_t>(size_of(dtype)), &bytes), shape.text());
  return adopt(dtype, shape, allocate(static_cast<size_t>(bytes)));
}

Array Array::adopt(DType dtype, Shape shape, std::shared_ptr<std::byte[]> storage) {
  TROUPE_CHECK(reinterpret_cast<uintptr_t>(storage.get()) % static_cast<size_t>(kAlignment) == 0);
  Array result;
  result.dtype_ = dtype;
  result.shape_ = shape;
  result.elements_ = shape.elements();
  result.storage_ = std::move(storage);
  result.data_ = result.storage_.get();
  return result;
}

Array::Array(DType dtype, Shape shape) : Array(uninitialized(dtype, shape)) {
  if (bytes() > 0) std::memset(data_, 0, bytes());
}

void Array::require_dtype(DType wanted) const {
  TROUPE_CHECK(dtype_ == wanted, name_of(dtype_), name_of(wanted), shape_.text());
}

Array Array::slice(int64_t begin, int64_t end) const {
  TROUPE_CHECK(rank() > 0 && 0 <= begin && begin <= end && end <= shape_[0], begin, end, shape_.text());
  Array result = *this;
  result.shape_ = shape_.without_first().prepended(end - begin);
  result.elements_ = (end - begin) * row_size();
  result.data_ = data_ + static_cast<size_t>(begin) * row_bytes();
  return result;
}

Array Array::at(int64_t i) const {
  Array result = slice(i, i + 1);
  result.shape_ = shape_.without_first();
  return result;
}

Array Array::reshaped(Shape shape) const {
  TROUPE_CHECK(shape.elements() == elements_, shape.text(), shape_.text());
  Array result = *this;
  result.shape_ = shape;
  return result;
}

Array Array::reinterpreted(DType dtype, Shape shape) const {
  const int64_t elements = shape.elements();
  TROUPE_CHECK(static_cast<size_t>(elements) * size_of(dtype) == bytes(), shape.text(), name_of(dtype), bytes());
  TROUPE_CHECK(reinterpret_cast<uintptr_t>(data_) % size_of(dtype) == 0, name_of(dtype));
  Array result = *this;
  result.dtype_ = dtype;
  result.shape_ = shape;
  result.elements_ = elements;
  return result;
}

Array Array::clone() const {
  Array result = uninitialized(dtype_, shape_);
  if (bytes() > 0) std::memcpy(result.data_, data_, bytes());
  return result;
}

bool operator==(const Array& a, const Array& b) {
  return a.dtype_ == b.dtype_ && a.shape_ == b.shape_ &&
         (a.bytes() == 0 || std::memcmp(a.data_, b.data_, a.bytes()) == 0);
}

const Array* Arrays::find(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

Array* Arrays::find(std::string_view name) { return const_cast<Array*>(std::as_const(*this).find(name)); }

const Array& Arrays::at(std::string_view name) const {
  const Array* found = find(name);
  if (found == nullptr) {
    std::string names;
    for (const Entry& entry : entries_) names += ' ' + entry.first;
    TROUPE_CHECK(found != nullptr, name, "not among", names);
  }
  return *found;
}

Array& Arrays::at(std::string_view name) { return const_cast<Array&>(std::as_const(*this).at(name)); }

void Arrays::set(std::string name, Array array) {
  if (Array* found = find(name)) {
    *found = std::move(array);
  } else {
    entries_.emplace_back(std::move(name), std::move(array));
  }
}

size_t Arrays::bytes() const {
  size_t total = 0;
  for (const Entry& entry : entries_) total += entry.second.bytes();
  return total;
}

}  // namespace troupe
