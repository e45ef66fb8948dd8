#include "models/networks/inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "envs/observation_called.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

template <class T>
float number_of(T x) {
  return static_cast<float>(x);
}
float number_of(Float16 x) { return to_float(x); }
float number_of(BFloat16 x) { return to_float(x); }

// Copies an array [samples, width], times `unit`, into columns of `out`, whose rows have `features` numbers.
template <class T>
void copy_features(const Array& array, float unit, float* out, int64_t features) {
  const T* sample = array.view<T>().data();
  const int64_t samples = array.dim(0), width = array.row_size();
  for (int64_t i = 0; i < samples; ++i, sample += width)
    for (int64_t j = 0; j < width; ++j) out[i * features + j] = number_of(sample[j]) * unit;
}

void copy_numbers(const Array& array, float* out, int64_t features) {
  switch (array.dtype()) {
    case DType::u8: return copy_features<uint8_t>(array, 1.0f / 255.0f, out, features);
    case DType::i32: return copy_features<int32_t>(array, 1.0f, out, features);
    case DType::i64: return copy_features<int64_t>(array, 1.0f, out, features);
    case DType::f32: return copy_features<float>(array, 1.0f, out, features);
    case DType::f64: return copy_features<double>(array, 1.0f, out, features);
    case DType::f16: return copy_features<Float16>(array, 1.0f, out, features);
    case DType::bf16: return copy_features<BFloat16>(array, 1.0f, out, features);
  }
}

// `features` of the scaling, from `first` on, belong to values [samples, features].
void scale_features(const FeatureScaling& scaling, int64_t first, int64_t samples, int64_t features, float* values) {
  const float *mean = scaling.mean.data() + first, *inverse_std = scaling.inverse_std.data() + first;
  const float clip = scaling.clip > 0.0f ? scaling.clip : std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < samples; ++i) {
    float* sample = values + i * features;
    // Written so that NaN stays NaN: clipping must not hide an invalid observation.
    for (int64_t j = 0; j < features; ++j) {
      const float x = (sample[j] - mean[j]) * inverse_std[j];
      sample[j] = x > clip ? clip : (x < -clip ? -clip : x);
    }
  }
}

}  // namespace

FeatureScaling FeatureScaling::of(const RunningNormalizer& normalizer, double clip) {
  FeatureScaling result;
  result.clip = static_cast<float>(clip);
  for (int64_t i = 0; i < normalizer.features(); ++i) {
    result.mean.push_back(static_cast<float>(normalizer.mean()[i]));
    result.inverse_std.push_back(static_cast<float>(1.0 / std::sqrt(normalizer.variance(i) + kVarianceFloor)));
  }
  return result;
}

InputEncoder::InputEncoder(std::vector<ArraySpec> observations, std::vector<NetworkInputSpec> inputs)
    : observations_(std::move(observations)), inputs_(std::move(inputs)) {
  for (const NetworkInputSpec& input : inputs_) {
    TROUPE_CHECK(input.numbers || input.observations.size() == 1, input.observations.size());
    first_features_.push_back(input.numbers ? features_ : -1);
    if (!input.numbers) continue;
    for (size_t i : input.observations) features_ += observations_.at(i).shape.elements();
  }
  TROUPE_CHECK(elements() >= 1, elements());
}

int64_t InputEncoder::elements() const {
  int64_t result = 0;
  for (const NetworkInputSpec& input : inputs_)
    for (size_t i : input.observations) result += observations_.at(i).shape.elements();
  return result;
}

int64_t InputEncoder::samples_of(const Arrays& observations) const {
  int64_t samples = -1;
  for (const ArraySpec& spec : observations_) {
    const Array& array = observations.at(spec.name);
    const bool fits = array.dtype() == spec.dtype && array.rank() == spec.shape.rank() + 1 &&
                      array.shape().without_first() == spec.shape;
    if (!fits)
      throw InvariantError(observation_called(spec.name) + " is " + std::string(name_of(array.dtype())) + ' ' +
                           array.shape().text() + ", not [samples] times " + std::string(name_of(spec.dtype)) + ' ' +
                           spec.shape.text());
    if (samples >= 0 && array.dim(0) != samples)
      throw InvariantError(observation_called(spec.name) + " has " + std::to_string(array.dim(0)) + " samples, " +
                           observations_.front().name + " has " + std::to_string(samples));
    samples = array.dim(0);
  }
  return samples;
}

std::vector<Array> InputEncoder::encode(const Arrays& observations) const {
  const int64_t samples = samples_of(observations);
  std::vector<Array> result;
  for (const NetworkInputSpec& input : inputs_) {
    const ArraySpec& first = observations_[input.observations.front()];
    if (!input.numbers)
      result.push_back(observations.at(first.name));
    else if (input.observations.size() == 1 && first.dtype == DType::f32)
      result.push_back(observations.at(first.name).reshaped({samples, first.shape.elements()}));
    else
      result.push_back(encode_numbers(observations, input, samples));
  }
  return result;
}

Array InputEncoder::encode_numbers(const Arrays& observations, const NetworkInputSpec& input, int64_t samples) const {
  int64_t features = 0;
  for (size_t i : input.observations) features += observations_[i].shape.elements();
  Array result = Array::uninitialized(DType::f32, {samples, features});
  float* out = result.mutable_view<float>().data();
  for (size_t i : input.observations) {
    copy_numbers(observations.at(observations_[i].name), out, features);
    out += observations_[i].shape.elements();
  }
  return result;
}

void InputEncoder::scale(const FeatureScaling& scaling, std::vector<Array>& inputs) const {
  if (!inputs.empty()) scale(scaling, inputs, 0, inputs.front().dim(0));
}

void InputEncoder::scale(const FeatureScaling& scaling, std::vector<Array>& inputs, int64_t begin, int64_t end) const {
  if (scaling.mean.empty() || inputs.empty()) return;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].numbers) continue;
    const int64_t features = inputs[i].row_size();
    scale_features(scaling, first_features_[i], end - begin, features,
                   inputs[i].mutable_view<float>().data() + begin * features);
  }
}

void InputEncoder::gather_features(const std::vector<Array>& inputs, std::span<const int64_t> samples,
                                   std::span<float> out) const {
  TROUPE_CHECK(static_cast<int64_t>(out.size()) == static_cast<int64_t>(samples.size()) * features_, out.size(),
               features_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].numbers) continue;
    const float* source = inputs[i].view<float>().data();
    const int64_t width = inputs[i].row_size();
    float* target = out.data() + first_features_[i];
    for (const int64_t sample : samples) {
      std::copy_n(source + sample * width, width, target);
      target += features_;
    }
  }
}

}  // namespace troupe
