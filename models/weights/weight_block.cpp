#include "models/weights/weight_block.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

WeightBlock::WeightBlock(Signature signature)
    : signature_(std::make_shared<const Signature>(std::move(signature))), published_(signature_) {
  offsets_ = signature_->offsets();
  flat_ = Array(DType::u8, {static_cast<int64_t>(signature_->total_bytes())});
  TensorGroup last = TensorGroup::policy;
  for (const TensorSpec& spec : signature_->tensors) {
    TROUPE_CHECK(spec.group >= last, spec.text());
    TROUPE_CHECK(spec.group == TensorGroup::buffer || spec.dtype == DType::f32, spec.text());
    last = spec.group;
  }
  if (!std::ranges::all_of(signature_->tensors, is_published, &TensorSpec::group))
    published_ = std::make_shared<const Signature>(published_signature(*signature_));
}

TensorRange WeightBlock::range_of(TensorGroup first, TensorGroup last) const {
  const auto& tensors = signature_->tensors;
  const auto begin_of = [&](size_t i) {
    return i == tensors.size() ? flat_.bytes() / sizeof(float) : parameter_offset(i);
  };
  const auto from = std::ranges::lower_bound(tensors, first, {}, &TensorSpec::group) - tensors.begin();
  const auto to = std::ranges::upper_bound(tensors, last, {}, &TensorSpec::group) - tensors.begin();
  const auto begin = static_cast<size_t>(from), end = static_cast<size_t>(to);
  return {begin, end, begin_of(begin), begin_of(end)};
}

bool WeightBlock::has(std::string_view name) const {
  return std::any_of(signature_->tensors.begin(), signature_->tensors.end(),
                     [&](const TensorSpec& spec) { return spec.name == name; });
}

size_t WeightBlock::index_of(std::string_view name) const {
  for (size_t i = 0; i < signature_->tensors.size(); ++i)
    if (signature_->tensors[i].name == name) return i;
  throw InvariantError("the model has no tensor " + std::string(name));
}

Array WeightBlock::tensor(size_t i) const {
  const TensorSpec& spec = signature_->tensors[i];
  const auto begin = static_cast<int64_t>(offsets_[i]);
  const auto bytes = spec.shape.elements() * static_cast<int64_t>(size_of(spec.dtype));
  return flat_.slice(begin, begin + bytes).reinterpreted(spec.dtype, spec.shape);
}

std::span<float> WeightBlock::floats(std::string_view name) { return tensor(index_of(name)).mutable_view<float>(); }
std::span<const float> WeightBlock::floats(std::string_view name) const { return tensor(index_of(name)).view<float>(); }
std::span<double> WeightBlock::doubles(std::string_view name) { return tensor(index_of(name)).mutable_view<double>(); }
std::span<const double> WeightBlock::doubles(std::string_view name) const {
  return tensor(index_of(name)).view<double>();
}

std::span<float> WeightBlock::parameters() {
  return {reinterpret_cast<float*>(flat_.mutable_data()), range_of(TensorGroup::frozen).end};
}

std::pair<size_t, size_t> WeightBlock::unpublished() const {
  const TensorRange critic = range_of(TensorGroup::critic);
  return {critic.begin * sizeof(float), critic.end * sizeof(float)};
}

WeightsPtr WeightBlock::share(PolicyVersion version) const {
  if (published_ != signature_) return snapshot(version);
  auto result = std::make_shared<WeightSnapshot>();
  result->version = version;
  result->signature = published_;
  result->flat = flat_;
  return result;
}

void WeightBlock::exchange(Array& memory) {
  TROUPE_CHECK(memory.dtype() == DType::u8 && memory.bytes() == flat_.bytes(), memory.bytes(), flat_.bytes());
  std::swap(flat_, memory);
}

void WeightBlock::detach() {
  if (flat_.is_shared()) flat_ = flat_.clone();
}

// Every tensor takes a multiple of the alignment, so a snapshot is this block without the bytes that are not published.
WeightsPtr WeightBlock::snapshot(PolicyVersion version) const {
  const auto [before, end] = unpublished();
  const size_t after = flat_.bytes() - end;
  auto result = std::make_shared<WeightSnapshot>();
  result->version = version;
  result->signature = published_;
  result->flat = Array::uninitialized(DType::u8, {static_cast<int64_t>(before + after)});
  std::copy_n(flat_.data(), before, result->flat.mutable_data());
  std::copy_n(flat_.data() + end, after, result->flat.mutable_data() + before);
  return result;
}

void WeightBlock::load(const WeightSnapshot& weights) {
  check_snapshot(published_, weights);
  const auto [before, end] = unpublished();
  std::copy_n(weights.flat.data(), before, flat_.mutable_data());
  std::copy_n(weights.flat.data() + before, flat_.bytes() - end, flat_.mutable_data() + end);
}

void WeightBlock::adopt(const WeightSnapshot& weights) {
  if (published_ != signature_) return load(weights);
  check_snapshot(published_, weights);
  flat_ = weights.flat;
}

std::map<std::string, Array> WeightBlock::views() const {
  std::map<std::string, Array> result;
  for (size_t i = 0; i < signature_->tensors.size(); ++i) result[signature_->tensors[i].name] = tensor(i);
  return result;
}

std::map<std::string, Array> WeightBlock::save() const {
  std::map<std::string, Array> result;
  for (size_t i = 0; i < signature_->tensors.size(); ++i) result[signature_->tensors[i].name] = tensor(i).clone();
  return result;
}

void WeightBlock::check(const std::map<std::string, Array>& tensors) const {
  for (const TensorSpec& spec : signature_->tensors) check_tensor(tensors, spec.name, spec.shape, spec.dtype, "model");
  for (const auto& [name, array] : tensors)
    if (!has(name))
      throw ConfigError("model tensor " + name + ' ' + array.shape().text() + ": the run's model has no such tensor");
}

void WeightBlock::load(const std::map<std::string, Array>& tensors) {
  check(tensors);
  for (size_t i = 0; i < signature_->tensors.size(); ++i) {
    const Array& source = tensors.at(signature_->tensors[i].name);
    if (!source.empty()) std::memcpy(flat_.mutable_data() + offsets_[i], source.data(), source.bytes());
  }
}

void check_snapshot(const std::shared_ptr<const Signature>& published, const WeightSnapshot& weights) {
  if (weights.signature == nullptr) throw ConfigError("weights " + weights.version.text() + ": they have no signature");
  if (weights.signature != published && weights.signature->hash() != published->hash())
    throw ConfigError("weights " + weights.version.text() + ": " +
                      published->first_difference(*weights.signature).value_or("the signatures differ"));
  if (weights.flat.bytes() != published->total_bytes())
    throw ConfigError("weights " + weights.version.text() + ": " + std::to_string(weights.flat.bytes()) +
                      " bytes, expected " + std::to_string(published->total_bytes()));
}

void check_tensor(const std::map<std::string, Array>& tensors, const std::string& name, const Shape& shape, DType dtype,
                  const std::string& what) {
  const std::string wanted = std::string(name_of(dtype)) + ' ' + shape.text();
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw ConfigError(what + " tensor " + name + ": missing, expected " + wanted);
  const Array& array = found->second;
  if (array.dtype() != dtype || !(array.shape() == shape))
    throw ConfigError(what + " tensor " + name + ": is " + std::string(name_of(array.dtype())) + ' ' +
                      array.shape().text() + ", expected " + wanted);
}

}  // namespace troupe
