#include "models/adam.h"

#include <cmath>

#include "runtime/errors.h"

namespace troupe {

void adam_step(const AdamSettings& settings, AdamState& state, size_t begin, std::span<float> parameters,
               std::span<const float> gradients, float gradient_scale) {
  const size_t n = parameters.size();
  TROUPE_CHECK(gradients.size() == n && begin + n <= state.first.size() && state.steps >= 1, n, begin, state.first.size());
  const auto steps = static_cast<double>(state.steps);
  const double correction1 = 1.0 - std::pow(settings.beta1, steps), correction2 = 1.0 - std::pow(settings.beta2, steps);
  const auto beta1 = static_cast<float>(settings.beta1), beta2 = static_cast<float>(settings.beta2);
  const auto step_size = static_cast<float>(settings.learning_rate / correction1);
  const auto root = static_cast<float>(1.0 / std::sqrt(correction2)), epsilon = static_cast<float>(settings.epsilon);
  const auto keep = static_cast<float>(1.0 - settings.learning_rate * settings.weight_decay);
  float *p = parameters.data(), *first = state.first.data() + begin, *second = state.second.data() + begin;
  const float* g = gradients.data();
  for (size_t i = 0; i < n; ++i) {
    const float gradient = g[i] * gradient_scale;
    first[i] = beta1 * first[i] + (1.0f - beta1) * gradient;
    second[i] = beta2 * second[i] + (1.0f - beta2) * gradient * gradient;
    p[i] = keep * p[i] - step_size * first[i] / (std::sqrt(second[i]) * root + epsilon);
  }
}

double norm_of(std::span<const float> gradients) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= gradients.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(gradients[i + lane]) * gradients[i + lane];
  double sum = 0.0;
  for (; i < gradients.size(); ++i) sum += static_cast<double>(gradients[i]) * gradients[i];
  for (double lane : lanes) sum += lane;
  return std::sqrt(sum);
}

}  // namespace troupe
