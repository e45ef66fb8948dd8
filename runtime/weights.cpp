#include "runtime/weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/rng.h"

namespace troupe {

namespace {

constexpr size_t kTensorAlignment = 64;

size_t tensor_bytes(const TensorSpec& spec) { return static_cast<size_t>(spec.shape.elements()) * size_of(spec.dtype); }

size_t aligned(size_t bytes) { return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment; }

}  // namespace

std::string TensorSpec::text() const {
  return std::string(kind == TensorKind::parameter ? "parameter " : "buffer ") + name + ' ' +
         std::string(name_of(dtype)) + ' ' + shape.text();
}

uint64_t Signature::hash() const {
  uint64_t result = tensors.size();
  for (const TensorSpec& tensor : tensors) result = mix(result, derive_key(0, tensor.text()));
  return result;
}

std::vector<size_t> Signature::offsets() const {
  std::vector<size_t> result;
  result.reserve(tensors.size());
  size_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    result.push_back(offset);
    offset += aligned(tensor_bytes(tensor));
  }
  return result;
}

size_t Signature::total_bytes() const {
  size_t total = 0;
  for (const TensorSpec& tensor : tensors) total += aligned(tensor_bytes(tensor));
  return total;
}

std::optional<std::string> Signature::first_difference(const Signature& other) const {
  const size_t common = std::min(tensors.size(), other.tensors.size());
  for (size_t i = 0; i < common; ++i)
    if (tensors[i] != other.tensors[i])
      return "tensor " + std::to_string(i) + " is " + tensors[i].text() + " here and " + other.tensors[i].text() +
             " there";
  if (tensors.size() == other.tensors.size()) return std::nullopt;
  const bool here = tensors.size() > common;
  return "tensor " + std::to_string(common) + ", " + (here ? tensors : other.tensors)[common].text() + ", is only " +
         (here ? "here" : "there");
}

Array WeightSnapshot::tensor(size_t i) const {
  const TensorSpec& spec = signature->tensors.at(i);
  const size_t begin = signature->offsets()[i];
  return flat.slice(static_cast<int64_t>(begin), static_cast<int64_t>(begin + tensor_bytes(spec)))
      .reinterpreted(spec.dtype, spec.shape);
}

// Eight independent chains of (xor, multiply, shift): one chain is bound by the latency of its multiply, eight by the loads.
// Every step is a bijection of the word read, so that a change of a single word always changes the result.
void Checksum::update(const void* data, size_t bytes) {
  TROUPE_CHECK(bytes_ % kStride == 0, bytes_);
  const auto* p = static_cast<const unsigned char*>(data);
  std::array<uint64_t, 8> lanes = lanes_;
  const auto step = [&lanes](const unsigned char* word_at, size_t lane) {
    uint64_t word;
    std::memcpy(&word, word_at, sizeof word);
    lanes[lane] = (lanes[lane] ^ word) * 0x9E3779B97F4A7C15ULL;
    lanes[lane] ^= lanes[lane] >> 32;
  };
  size_t i = 0;
  for (; i + kStride <= bytes; i += kStride)
    [&]<size_t... lane>(std::index_sequence<lane...>) {
      (step(p + i + 8 * lane, lane), ...);
    }(std::make_index_sequence<8>());
  for (; i < bytes; ++i) tail_ = mix(tail_, p[i]);
  lanes_ = lanes;
  bytes_ += bytes;
}

uint64_t Checksum::value() const {
  uint64_t result = mix(tail_, bytes_);
  for (const uint64_t lane : lanes_) result = mix(result, lane);
  return result;
}

uint64_t checksum_of(const void* data, size_t bytes) {
  Checksum checksum;
  checksum.update(data, bytes);
  return checksum.value();
}

}  // namespace troupe
