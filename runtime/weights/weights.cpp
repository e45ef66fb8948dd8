#include "runtime/weights/weights.h"

// Makes XXH3's state a complete type, which can be a member. The functions come from the linked library and not from
// the header, because only the library can choose AVX2 or AVX-512 at run time (xxh_x86dispatch.h).
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

constexpr size_t kTensorAlignment = 64;

size_t tensor_bytes(const TensorSpec& spec) { return static_cast<size_t>(spec.shape.elements()) * size_of(spec.dtype); }

size_t aligned(size_t bytes) { return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment; }

std::string_view text_of(TensorGroup group) {
  switch (group) {
    case TensorGroup::policy: return "policy parameter";
    case TensorGroup::value: return "value parameter";
    case TensorGroup::critic: return "critic parameter";
    case TensorGroup::frozen: return "frozen parameter";
    case TensorGroup::buffer: return "buffer";
  }
  return "tensor";
}

}  // namespace

std::string TensorSpec::text() const {
  return std::string(text_of(group)) + ' ' + name + ' ' + std::string(name_of(dtype)) + ' ' + shape.text();
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

Signature published_signature(const Signature& model) {
  Signature result;
  std::ranges::copy_if(model.tensors, std::back_inserter(result.tensors), is_published, &TensorSpec::group);
  return result;
}

uint64_t next_snapshot_identity() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

std::span<const float> WeightSnapshot::floats(std::string_view name) const {
  const std::vector<size_t> offsets = signature->offsets();
  for (size_t i = 0; i < signature->tensors.size(); ++i)
    if (signature->tensors[i].name == name) {
      const auto count = static_cast<size_t>(signature->tensors[i].shape.elements());
      return {reinterpret_cast<const float*>(flat.data() + offsets[i]), count};
    }
  throw InvariantError("the weights have no tensor " + std::string(name));
}

Array WeightSnapshot::tensor(size_t i) const {
  const TensorSpec& spec = signature->tensors.at(i);
  const size_t begin = signature->offsets()[i];
  return flat.slice(static_cast<int64_t>(begin), static_cast<int64_t>(begin + tensor_bytes(spec)))
      .reinterpreted(spec.dtype, spec.shape);
}

WeightsPtr without_values(const WeightSnapshot& weights) {
  auto result = std::make_shared<WeightSnapshot>(weights);
  result->flat = {};
  return result;
}

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum::~Checksum() = default;

void Checksum::update(const void* data, size_t bytes) { XXH3_64bits_update(&state_->xxh, data, bytes); }

uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->xxh); }

uint64_t checksum_of(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace troupe
