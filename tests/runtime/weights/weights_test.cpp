#include "runtime/weights/weights.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

Signature two_tensors() {
  return {{{TensorGroup::policy, "w", {3, 5}, DType::f32}, {TensorGroup::buffer, "n", {}, DType::f64}}};
}

}  // namespace

TEST_CASE("weights: tensors start at multiples of 64 bytes and share the flat block") {
  auto signature = std::make_shared<const Signature>(two_tensors());
  CHECK(signature->offsets() == std::vector<size_t>{0, 64});
  CHECK(signature->total_bytes() == 128);
  WeightSnapshot snapshot{{0, 1}, signature, Array(DType::u8, {128})};
  snapshot.tensor(0).mutable_view<float>()[14] = 2.5f;
  CHECK(snapshot.tensor(0).view<float>()[14] == 2.5f);
  CHECK(snapshot.tensor(1).shape() == Shape{});
}

TEST_CASE("weights: tensors of 16-bit numbers take two bytes per element, and their dtype is part of the signature") {
  const auto of = [](DType dtype) {
    return Signature{{{TensorGroup::policy, "w", {33}, dtype}, {TensorGroup::policy, "x", {1}, dtype}}};
  };
  const auto signature = std::make_shared<const Signature>(of(DType::bf16));
  CHECK(signature->offsets() == std::vector<size_t>{0, 128});
  WeightSnapshot snapshot{{0, 1}, signature, Array(DType::u8, {static_cast<int64_t>(signature->total_bytes())})};
  snapshot.tensor(0).mutable_view<BFloat16>()[32] = to_bfloat16(-3.0f);
  CHECK(to_float(snapshot.tensor(0).view<BFloat16>()[32]) == -3.0f);
  CHECK(signature->hash() != of(DType::f16).hash());
  CHECK(*signature->first_difference(of(DType::f16)) ==
        "tensor 0 is policy parameter w bfloat16 [33] here and policy parameter w float16 [33] there");
}

TEST_CASE("weights: the first difference has tensor, dtype and shape of both sides") {
  Signature a = two_tensors(), b = two_tensors();
  CHECK_FALSE(a.first_difference(b));
  b.tensors[0].shape = {3, 6};
  CHECK(*a.first_difference(b) ==
        "tensor 0 is policy parameter w float32 [3, 5] here and policy parameter w float32 [3, 6] there");
  CHECK(a.hash() != b.hash());
  b = two_tensors();
  b.tensors[0].group = TensorGroup::frozen;
  CHECK(*a.first_difference(b) ==
        "tensor 0 is policy parameter w float32 [3, 5] here and frozen parameter w float32 [3, 5] there");
  CHECK(a.hash() != b.hash());
  b = two_tensors();
  b.tensors.pop_back();
  CHECK(*a.first_difference(b) == "tensor 1, buffer n float64 [], is only here");
}

TEST_CASE("weights: a critic is not published, and the other tensors keep their order") {
  Signature model = two_tensors();
  CHECK_FALSE(published_signature(model).first_difference(model));
  model.tensors.insert(model.tensors.begin() + 1, TensorSpec{TensorGroup::critic, "c", {4}, DType::f32});
  CHECK_FALSE(published_signature(model).first_difference(two_tensors()));
  CHECK(*published_signature(model).first_difference(model) ==
        "tensor 1 is buffer n float64 [] here and critic parameter c float32 [4] there");
}

TEST_CASE("weights: the checksum depends on every byte, on the order and on the length") {
  std::string data(100, 'x');
  const uint64_t whole = checksum_of(data.data(), data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    std::string other = data;
    other[i] ^= 1;
    CHECK(checksum_of(other.data(), other.size()) != whole);
  }
  CHECK(checksum_of(data.data(), 99) != whole);
}

TEST_CASE("weights: the checksum of several pieces equals the checksum of the whole") {
  std::string data(1000, 'x');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  for (const size_t cut : {0, 1, 63, 64, 640, 999}) {
    Checksum checksum;
    checksum.update(data.data(), cut);
    checksum.update(data.data() + cut, data.size() - cut);
    CHECK(checksum.value() == checksum_of(data.data(), data.size()));
  }
}
