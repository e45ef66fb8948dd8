#include "algorithms/common/running_normalizer.h"

#include <cmath>

#include "algorithms/common/tile.h"

namespace troupe {

namespace {

void check_blocks(std::span<const float> in, std::span<const float> out, std::size_t features, double epsilon) {
  TROUPE_CHECK(in.size() == out.size() && (features == 0 ? in.empty() : in.size() % features == 0), "in", in.size(),
               "out", out.size(), "features", features);
  TROUPE_CHECK(epsilon >= 0, "epsilon", epsilon);
}

// Adds f(x, i) of each valid sample to each feature's sum.
template <class F>
void add_samples(std::span<const float> block, std::span<const uint8_t> valid, std::vector<double>& sums, F f) {
  const std::size_t features = sums.size();
  for (std::size_t sample = 0; sample < block.size() / features; ++sample) {
    if (!valid.empty() && valid[sample] == 0) continue;
    const float* x = block.data() + sample * features;
    for (std::size_t i = 0; i < features; ++i) sums[i] += f(double{x[i]}, i);
  }
}

}  // namespace

RunningNormalizer::RunningNormalizer(int64_t features) {
  TROUPE_CHECK(features >= 0, "features", features);
  mean_.assign(static_cast<std::size_t>(features), 0.0);
  m2_.assign(static_cast<std::size_t>(features), 0.0);
}

RunningNormalizer::RunningNormalizer(double count, std::vector<double> mean, std::vector<double> m2)
    : count_(count), mean_(std::move(mean)), m2_(std::move(m2)) {
  TROUPE_CHECK(mean_.size() == m2_.size(), "mean", mean_.size(), "m2", m2_.size());
  TROUPE_CHECK(std::isfinite(count_) && count_ >= 0, "count", count_);
  for (std::size_t i = 0; i < mean_.size(); ++i)
    TROUPE_CHECK(std::isfinite(mean_[i]) && std::isfinite(m2_[i]) && m2_[i] >= 0, "feature", i, "mean", mean_[i], "m2",
                 m2_[i]);
}

void RunningNormalizer::update(std::span<const float> block, std::span<const uint8_t> valid) {
  const std::size_t features = mean_.size();
  if (features == 0) {
    TROUPE_CHECK(block.empty(), "features", 0, "numbers in the block", block.size());
    return;
  }
  const std::size_t samples = block.size() / features;
  TROUPE_CHECK(block.size() % features == 0 && fits_or_empty(valid, samples), "block", block.size(), "features",
               features, "valid", valid.size());
  RunningNormalizer added(static_cast<int64_t>(features));
  for (std::size_t sample = 0; sample < samples; ++sample) added.count_ += valid.empty() || valid[sample] != 0;
  if (added.count_ == 0) return;
  add_samples(block, valid, added.mean_, [](double x, std::size_t) { return x; });
  for (std::size_t i = 0; i < features; ++i) {
    TROUPE_CHECK(std::isfinite(added.mean_[i]), "feature", i, "sum of the block", added.mean_[i]);
    added.mean_[i] /= added.count_;
  }
  add_samples(block, valid, added.m2_,
              [&](double x, std::size_t i) { return (x - added.mean_[i]) * (x - added.mean_[i]); });
  merge(added);
}

void RunningNormalizer::merge(const RunningNormalizer& other) {
  TROUPE_CHECK(other.mean_.size() == mean_.size(), "features", mean_.size(), "other's features", other.mean_.size());
  if (other.count_ == 0) return;
  const double total = count_ + other.count_;
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    const double delta = other.mean_[i] - mean_[i];
    mean_[i] += delta * (other.count_ / total);
    m2_[i] += other.m2_[i] + delta * delta * (count_ * other.count_ / total);
  }
  count_ = total;
}

double RunningNormalizer::variance(int64_t i) const {
  return count_ < 2 ? 1.0 : m2_.at(static_cast<std::size_t>(i)) / count_;
}

void RunningNormalizer::normalize(std::span<const float> in, std::span<float> out, double clip, double epsilon) const {
  const std::size_t features = mean_.size();
  check_blocks(in, out, features, epsilon);
  TROUPE_CHECK(clip >= 0, "clip", clip);
  std::vector<double> factor(features);
  for (std::size_t i = 0; i < features; ++i) factor[i] = 1.0 / std::sqrt(variance(static_cast<int64_t>(i)) + epsilon);
  const auto bound = static_cast<float>(clip);
  for (std::size_t at = 0; at < in.size(); at += features)
    for (std::size_t i = 0; i < features; ++i) {
      const auto x = static_cast<float>((double{in[at + i]} - mean_[i]) * factor[i]);
      out[at + i] = clip > 0 ? clamp_keep_nan(x, -bound, bound) : x;
    }
}

void RunningNormalizer::denormalize(std::span<const float> in, std::span<float> out, double epsilon) const {
  const std::size_t features = mean_.size();
  check_blocks(in, out, features, epsilon);
  std::vector<double> factor(features);
  for (std::size_t i = 0; i < features; ++i) factor[i] = std::sqrt(variance(static_cast<int64_t>(i)) + epsilon);
  for (std::size_t at = 0; at < in.size(); at += features)
    for (std::size_t i = 0; i < features; ++i)
      out[at + i] = static_cast<float>(double{in[at + i]} * factor[i] + mean_[i]);
}

}  // namespace troupe
