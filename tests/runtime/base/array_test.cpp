#include "runtime/base/array.h"

#include <cmath>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("array: storage is zeroed and aligned to 64 bytes") {
  Array a(DType::f32, {3, 5});
  CHECK(reinterpret_cast<uintptr_t>(a.data()) % 64 == 0);
  for (float x : a.view<float>()) CHECK(x == 0.0f);
}

TEST_CASE("array: a slice shares storage and keeps the trailing shape") {
  Array a = Array::of<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  Array tail = a.slice(1, 3);
  CHECK(tail.shape() == Shape{2, 2});
  tail.mutable_view<int32_t>()[0] = 9;
  CHECK(a.view<int32_t>()[2] == 9);
  CHECK(a.at(2) == Array::of<int32_t>({2}, {5, 6}));
}

TEST_CASE("array: an empty first dimension keeps its row size") {
  Array a(DType::f32, {0, 4});
  CHECK(a.row_size() == 4);
  CHECK(a.slice(0, 0).shape() == Shape{0, 4});
}

TEST_CASE("array: a wrong dtype, range or element count is refused") {
  Array a(DType::f32, {2});
  CHECK_THROWS_AS(a.view<int32_t>(), InvariantError);
  CHECK_THROWS_AS(a.slice(1, 3), InvariantError);
  CHECK_THROWS_AS(a.reshaped({3}), InvariantError);
  CHECK_THROWS_AS((Array::of<float>({2}, {1.0f})), InvariantError);
  CHECK_THROWS_AS((Array(DType::f64, {1LL << 40, 1LL << 40})), InvariantError);
}

TEST_CASE("array: every dtype has its number, size and name, and other numbers are no dtypes") {
  struct Row {
    uint8_t number;
    size_t bytes;
    const char* name;
  };
  const Row rows[] = {{0, 1, "uint8"},   {1, 4, "int32"},   {2, 8, "int64"},   {3, 4, "float32"},
                      {4, 8, "float64"}, {5, 2, "float16"}, {6, 2, "bfloat16"}};
  REQUIRE(std::size(rows) == std::size(kDTypes));
  for (const Row& row : rows) {
    const auto dtype = dtype_of_number(row.number);
    REQUIRE(dtype);
    CHECK(size_of(*dtype) == row.bytes);
    CHECK(name_of(*dtype) == row.name);
    CHECK(is_floating_point(*dtype) == (name_of(*dtype).find("float") != std::string::npos));
  }
  for (int number = std::size(rows); number < 256; ++number) CHECK_FALSE(dtype_of_number(static_cast<uint8_t>(number)));
}

TEST_CASE("array: 16-bit floating-point numbers are held as their bits") {
  const Array a = Array::of<Float16>({2}, {to_float16(1.5f), to_float16(-0.25f)});
  CHECK(a.dtype() == DType::f16);
  CHECK(a.bytes() == 4);
  CHECK(to_float(a.view<Float16>()[1]) == -0.25f);
  CHECK_THROWS_AS(a.view<BFloat16>(), InvariantError);
  CHECK(Array(DType::bf16, {3}).view<BFloat16>()[2].bits == 0);
}

TEST_CASE("array: equality compares bytes, so NaN equals itself and 0 differs from -0") {
  CHECK(Array::of<float>({1}, {NAN}) == Array::of<float>({1}, {NAN}));
  CHECK_FALSE(Array::of<float>({1}, {0.0f}) == Array::of<float>({1}, {-0.0f}));
}

TEST_CASE("arrays: a missing name is refused with the existing names") {
  Arrays arrays{{"a", Array(DType::u8, {1})}, {"b", Array(DType::u8, {2})}};
  CHECK(arrays.at("b").size() == 2);
  CHECK_THROWS_WITH_AS(arrays.at("c"), doctest::Contains("a b"), InvariantError);
}
