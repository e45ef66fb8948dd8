#include "models/networks/observations.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr double kVarianceFloor = 1e-8;

// Rows of one array into columns [offset, offset + width) of out [rows, features].
template <class T>
void copy_rows(const Array& array, std::span<const int64_t> rows, int64_t count, float unit, float* out,
               int64_t features) {
  const T* source = array.view<T>().data();
  const int64_t width = array.row_size();
  for (int64_t i = 0; i < count; ++i) {
    const T* row = source + (rows.empty() ? i : rows[i]) * width;
    float* target = out + i * features;
    for (int64_t j = 0; j < width; ++j) target[j] = static_cast<float>(row[j]) * unit;
  }
}

void scale_rows(const FeatureScaling& scaling, int64_t rows, int64_t features, float* values) {
  const float *mean = scaling.mean.data(), *inverse_std = scaling.inverse_std.data();
  const float clip = scaling.clip > 0.0f ? scaling.clip : std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < rows; ++i) {
    float* row = values + i * features;
    // Written so that NaN passes through: what is wrong with an observation must show, not be clipped away.
    for (int64_t j = 0; j < features; ++j) {
      const float x = (row[j] - mean[j]) * inverse_std[j];
      row[j] = x > clip ? clip : (x < -clip ? -clip : x);
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

ObservationEncoder::ObservationEncoder(std::vector<ArraySpec> specs) : specs_(std::move(specs)) {
  for (const ArraySpec& spec : specs_) features_ += spec.shape.elements();
  TROUPE_CHECK(features_ >= 1, features_);
}

int64_t ObservationEncoder::rows_of(const Arrays& observations) const {
  int64_t rows = -1;
  for (const ArraySpec& spec : specs_) {
    const Array& array = observations.at(spec.name);
    const bool fits = array.dtype() == spec.dtype && array.rank() == spec.shape.rank() + 1 &&
                      array.shape().without_first() == spec.shape;
    if (!fits)
      throw InvariantError("observation " + spec.name + " is " + std::string(name_of(array.dtype())) + ' ' +
                           array.shape().text() + ", not [rows] times " + std::string(name_of(spec.dtype)) + ' ' +
                           spec.shape.text());
    if (rows >= 0 && array.dim(0) != rows)
      throw InvariantError("observation " + spec.name + " has " + std::to_string(array.dim(0)) + " rows, " +
                           specs_.front().name + " has " + std::to_string(rows));
    rows = array.dim(0);
  }
  return rows;
}

void ObservationEncoder::encode(const Arrays& observations, std::span<const int64_t> rows,
                                const FeatureScaling& scaling, std::span<float> out) const {
  const int64_t count = rows.empty() ? observations.at(specs_.front().name).dim(0) : static_cast<int64_t>(rows.size());
  TROUPE_CHECK(static_cast<int64_t>(out.size()) == count * features_, out.size(), count, features_);
  int64_t offset = 0;
  for (const ArraySpec& spec : specs_) {
    const Array& array = observations.at(spec.name);
    float* target = out.data() + offset;
    switch (spec.dtype) {
      case DType::u8: copy_rows<uint8_t>(array, rows, count, 1.0f / 255.0f, target, features_); break;
      case DType::i32: copy_rows<int32_t>(array, rows, count, 1.0f, target, features_); break;
      case DType::i64: copy_rows<int64_t>(array, rows, count, 1.0f, target, features_); break;
      case DType::f32: copy_rows<float>(array, rows, count, 1.0f, target, features_); break;
      case DType::f64: copy_rows<double>(array, rows, count, 1.0f, target, features_); break;
    }
    offset += spec.shape.elements();
  }
  if (!scaling.mean.empty()) scale_rows(scaling, count, features_, out.data());
}

}  // namespace troupe
