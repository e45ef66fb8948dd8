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

TEST_CASE("array: equality is of bytes: NaN equals itself, 0 differs from -0") {
  CHECK(Array::of<float>({1}, {NAN}) == Array::of<float>({1}, {NAN}));
  CHECK_FALSE(Array::of<float>({1}, {0.0f}) == Array::of<float>({1}, {-0.0f}));
}

TEST_CASE("arrays: a missing name is refused with the names there are") {
  Arrays arrays{{"a", Array(DType::u8, {1})}, {"b", Array(DType::u8, {2})}};
  CHECK(arrays.at("b").size() == 2);
  CHECK_THROWS_WITH_AS(arrays.at("c"), doctest::Contains("a b"), InvariantError);
}
