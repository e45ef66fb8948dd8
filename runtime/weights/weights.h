#pragma once
// What the weight plane sends: a signature (which tensors, in which order) and a snapshot (their bytes, one flat
// block). Immutable once made; shared between threads by pointer. A model may have more tensors than it publishes: the
// signature of what it saves then has more, too.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/version.h"

namespace troupe {

// The role of a tensor in training. The numbers are part of the protocol between processes.
enum class TensorGroup : uint8_t {
  policy = 0,  // a parameter that is trained with the policy's learning rate
  value = 1,   // a parameter of the value function, which has a learning rate of its own
  critic = 2,  // the same, of a value function that only the learner computes: saved, never published
  frozen = 3,  // a parameter that is not trained: no gradient, no optimizer state
  buffer = 4,  // not a parameter: statistics of a normalizer, a scheduled number
};

constexpr bool is_published(TensorGroup group) { return group != TensorGroup::critic; }

struct TensorSpec {
  TensorGroup group = TensorGroup::policy;
  std::string name;
  Shape shape;
  DType dtype = DType::f32;

  // "policy parameter policy.0.weight float32 [64, 4]".
  std::string text() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// The ordered list of tensors of a model: sorted by group, then by name. What is trained comes first.
struct Signature {
  std::vector<TensorSpec> tensors;

  // Equal signatures have equal hashes on every machine.
  uint64_t hash() const;
  // Where tensor `i` starts in the flat block; every tensor starts at a multiple of 64 bytes.
  std::vector<size_t> offsets() const;
  // Bytes of the flat block.
  size_t total_bytes() const;
  // One line naming the first tensor that differs, or nullopt when both are the same.
  std::optional<std::string> first_difference(const Signature& other) const;
};

// The tensors of a model that it publishes, in the same order.
Signature published_signature(const Signature& model);

// A number that no other snapshot of this process has.
uint64_t next_snapshot_identity();

struct WeightSnapshot {
  PolicyVersion version;
  std::shared_ptr<const Signature> signature;
  Array flat;                                    // [signature->total_bytes()] uint8; padding bytes are zero
  uint64_t identity = next_snapshot_identity();  // from 1

  // The elements of a tensor of float32. Throws InvariantError when there is none of that name.
  std::span<const float> floats(std::string_view name) const;
  // Tensor `i` as an array that shares the flat block.
  Array tensor(size_t i) const;
};

using WeightsPtr = std::shared_ptr<const WeightSnapshot>;

// The same snapshot without its values, for those who need to know only which it is: the memory can be used again.
WeightsPtr without_values(const WeightSnapshot& weights);

// XXH3 of a block (64 bits, order- and length-sensitive; not cryptographic): three times as fast as memory bandwidth
// when the block is in the cache.
uint64_t checksum_of(const void* data, size_t bytes);

// The same checksum, computed incrementally.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  void update(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe
