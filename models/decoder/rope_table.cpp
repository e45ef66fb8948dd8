#include "models/decoder/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe {
namespace {

// Low frequencies are divided by the factor, high ones kept, those between interpolated.
float llama3_frequency(const LmShape& shape, float frequency) {
  const auto original = static_cast<double>(shape.rope_original_positions);
  const double wavelength = 2 * std::numbers::pi / double{frequency};
  if (wavelength < original / shape.rope_high_freq_factor) return frequency;
  const double low = double{frequency} / shape.rope_factor;
  if (wavelength > original / shape.rope_low_freq_factor) return static_cast<float>(low);
  const double smooth =
      (original / wavelength - shape.rope_low_freq_factor) / (shape.rope_high_freq_factor - shape.rope_low_freq_factor);
  return static_cast<float>((1 - smooth) * low + smooth * double{frequency});
}

}  // namespace

std::vector<float> rope_frequencies(const LmShape& shape) {
  std::vector<float> result;
  for (int64_t i = 0; i < shape.head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(shape.head_dim);
    const float frequency = 1.0f / static_cast<float>(std::pow(shape.rope_theta, double{exponent}));
    result.push_back(shape.rope_scaling == RopeScaling::llama3 ? llama3_frequency(shape, frequency) : frequency);
  }
  return result;
}

void RopeTable::grow(int64_t count) {
  auto position = static_cast<int64_t>(cos_.size()) / half();
  if (count <= position) return;
  count = std::max(count, 2 * position);
  cos_.reserve(static_cast<size_t>(count * half()));
  sin_.reserve(static_cast<size_t>(count * half()));
  for (; position < count; ++position)
    for (const float frequency : frequencies_) {
      // The angle in float32, as transformers computes it.
      const double angle = static_cast<float>(position) * frequency;
      cos_.push_back(static_cast<float>(std::cos(angle)));
      sin_.push_back(static_cast<float>(std::sin(angle)));
    }
}

}  // namespace troupe
