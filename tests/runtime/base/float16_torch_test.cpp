// The conversions of float16.h, compared with those of LibTorch.
#include <cmath>

#include "runtime/base/float16.h"
#include "tests/support/torch_test.h"

using namespace troupe;

namespace {

bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

template <class T>
constexpr at::ScalarType kTorchType = at::kHalf;
template <>
constexpr at::ScalarType kTorchType<BFloat16> = at::kBFloat16;

template <class T>
int different_in_float32() {
  at::Tensor bits = at::arange(-32768, 32768, at::kInt).to(at::kShort);
  const at::Tensor theirs = bits.view(kTorchType<T>).to(at::kFloat);
  int wrong = 0;
  for (int64_t i = 0; i < bits.numel(); ++i)
    wrong +=
        !same(to_float(T{static_cast<uint16_t>(bits.const_data_ptr<int16_t>()[i])}), theirs.const_data_ptr<float>()[i]);
  return wrong;
}

// All values of the upper 19 bits of a float32, each with lower bits around half of a Float16 step, and with small
// ones.
template <class T>
int different_in_16_bits(T (*convert)(float)) {
  at::Tensor numbers = at::empty({int64_t{1} << 19, 6}, at::kFloat);
  auto* bits = reinterpret_cast<uint32_t*>(numbers.mutable_data_ptr<float>());
  for (uint32_t upper = 0; upper < 1u << 19; ++upper)
    for (const uint32_t lower : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) *bits++ = upper << 13 | lower;
  const at::Tensor theirs = numbers.to(kTorchType<T>).view(at::kShort);
  int wrong = 0;
  for (int64_t i = 0; i < numbers.numel(); ++i)
    wrong += !same(to_float(convert(numbers.const_data_ptr<float>()[i])),
                   to_float(T{static_cast<uint16_t>(theirs.const_data_ptr<int16_t>()[i])}));
  return wrong;
}

}  // namespace

TEST_CASE("float16: conversions agree with LibTorch's in both directions") {
  CHECK(different_in_float32<Float16>() == 0);
  CHECK(different_in_float32<BFloat16>() == 0);
  CHECK(different_in_16_bits<Float16>(to_float16) == 0);
  CHECK(different_in_16_bits<BFloat16>(to_bfloat16) == 0);
}
