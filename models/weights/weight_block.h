#pragma once
// WeightBlock: the tensors of a model in one flat block, laid out as its signature says, so that a snapshot is one copy
// and an optimizer is one pass. A checkpoint has all of them, a snapshot those that are published. Plain bytes, no
// tensor library. Owned by a policy or a learner; used by one thread at a time.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/weights/weights.h"

namespace troupe {

// Tensors [first, last) of a signature and their elements [begin, end) in WeightBlock::parameters(), padding included.
struct TensorRange {
  size_t first = 0, last = 0;
  size_t begin = 0, end = 0;

  size_t size() const { return end - begin; }
};

class WeightBlock {
 public:
  // Throws InvariantError when the tensors are not sorted by group, or a parameter is not float32.
  explicit WeightBlock(Signature signature);
  // A copy would share the block's memory.
  WeightBlock(const WeightBlock&) = delete;
  WeightBlock& operator=(const WeightBlock&) = delete;
  WeightBlock(WeightBlock&&) = default;
  WeightBlock& operator=(WeightBlock&&) = default;

  // Of all tensors.
  const std::shared_ptr<const Signature>& signature() const { return signature_; }
  // Of those in a snapshot.
  const std::shared_ptr<const Signature>& published() const { return published_; }
  bool has(std::string_view name) const;
  // The elements of a tensor. Throws InvariantError when there is none of that name or its dtype differs.
  std::span<float> floats(std::string_view name);
  std::span<const float> floats(std::string_view name) const;
  std::span<double> doubles(std::string_view name);
  std::span<const double> doubles(std::string_view name) const;

  // All parameters as one array of float32, padding (always 0) included; parameter i starts at element
  // parameter_offset(i).
  std::span<float> parameters();
  size_t parameter_offset(size_t i) const { return offsets_[i] / sizeof(float); }
  // The parameters of the groups from `first` to `last`, which are contiguous. Not for buffers.
  TensorRange range_of(TensorGroup first, TensorGroup last) const;
  TensorRange range_of(TensorGroup group) const { return range_of(group, group); }
  // Those that are trained, the first ones: policy, value and critic.
  TensorRange trained() const { return range_of(TensorGroup::policy, TensorGroup::critic); }
  size_t parameter_count() const { return range_of(TensorGroup::frozen).last; }  // tensors

  WeightsPtr snapshot(PolicyVersion version) const;
  // The same without a copy if all tensors are published: the snapshot has the block's memory. Until it is gone, change
  // the block by exchange() alone, or detach() it first.
  WeightsPtr share(PolicyVersion version) const;
  // Swaps the block's memory for this: [total_bytes] uint8.
  void exchange(Array& memory);
  // Gives the block memory that nothing else has.
  void detach();
  // Loads a snapshot; what is not published stays as it is. Throws ConfigError naming the first difference, and then
  // changes nothing.
  void load(const WeightSnapshot& weights);
  // The same without a copy if all tensors are published, as after share().
  void adopt(const WeightSnapshot& weights);

  std::map<std::string, Array> save() const;
  // The same without copies, as after share().
  std::map<std::string, Array> views() const;
  // Throws ConfigError when the tensors are not exactly those of the signature.
  void check(const std::map<std::string, Array>& tensors) const;
  void load(const std::map<std::string, Array>& tensors);

 private:
  // Begin and end of the bytes that are not published: those of the critic.
  std::pair<size_t, size_t> unpublished() const;
  size_t index_of(std::string_view name) const;
  Array tensor(size_t i) const;

  std::shared_ptr<const Signature> signature_;
  std::shared_ptr<const Signature> published_;  // the same pointer if all tensors are
  std::vector<size_t> offsets_;
  Array flat_;  // [total_bytes] uint8
};

// Throws ConfigError naming the first difference unless the snapshot is one of these tensors.
void check_snapshot(const std::shared_ptr<const Signature>& published, const WeightSnapshot& weights);

// Throws ConfigError unless `tensors` holds an array of each spec's name, shape and dtype. `what` begins the message.
void check_tensor(const std::map<std::string, Array>& tensors, const std::string& name, const Shape& shape, DType dtype,
                  const std::string& what);

}  // namespace troupe
