#include "algorithms/common/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "algorithms/common/names.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

double clamped(double progress) {
  TROUPE_CHECK(!std::isnan(progress), "progress", progress);
  return std::clamp(progress, 0.0, 1.0);
}

// Half a cosine, from 1 at p = 0 to `low` at p = 1.
double half_cosine(double p, double low) { return low + (1 - low) * 0.5 * (1 + std::cos(std::numbers::pi * p)); }

}  // namespace

LearningRateKind find_learning_rate_kind(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kNames = {"constant", "linear", "cosine", "wsd"};
  return static_cast<LearningRateKind>(find_name("trainer.lr_schedule", name, kNames));
}

double warmup_factor(double steps, double warmup) {
  TROUPE_CHECK(!std::isnan(steps) && warmup >= 0, "steps", steps, "warmup", warmup);
  return steps >= warmup ? 1.0 : std::max(steps, 0.0) / warmup;
}

double decay_factor(LearningRateKind kind, double progress, double min_ratio, double stable_ratio) {
  const double p = clamped(progress);
  switch (kind) {
    case LearningRateKind::constant: return 1.0;
    case LearningRateKind::linear: return linear(1.0, min_ratio, p);
    case LearningRateKind::cosine: return half_cosine(p, min_ratio);
    case LearningRateKind::wsd:
      return p <= stable_ratio ? 1.0 : half_cosine((p - stable_ratio) / (1 - stable_ratio), min_ratio);
  }
  return 1.0;
}

double learning_rate_factor(const LearningRateSchedule& schedule, double step) {
  const double steps = step - schedule.start;
  if (steps < 0) return 0.0;
  const double up = warmup_factor(steps, schedule.warmup);
  if (steps < schedule.warmup) return up;
  const double span = schedule.total - schedule.start - schedule.warmup;
  const double progress = span > 0 ? (steps - schedule.warmup) / span : 1.0;
  return decay_factor(schedule.kind, progress, schedule.min_ratio, schedule.stable_ratio);
}

double learning_rate(const LearningRateSchedule& schedule, double peak, double step) {
  const auto in_range = [](const char* key, double value, double high) {
    if (!(value >= 0 && value <= high && std::isfinite(value)))
      throw ConfigError(std::string(key) + ": " + std::to_string(value) + ", expected a finite number of at least 0" +
                        (std::isfinite(high) ? " and at most 1" : ""));
  };
  constexpr double kNoBound = std::numeric_limits<double>::infinity();
  in_range("peak", peak, kNoBound);
  in_range("start", schedule.start, kNoBound);
  in_range("warmup", schedule.warmup, kNoBound);
  in_range("total", schedule.total, kNoBound);
  in_range("min_ratio", schedule.min_ratio, 1);
  in_range("stable_ratio", schedule.stable_ratio, 1);
  if (std::isnan(step)) throw ConfigError("step: nan, expected a number");
  return peak * learning_rate_factor(schedule, step);
}

double linear(double start, double end, double progress) {
  const double p = clamped(progress);
  return (1 - p) * start + p * end;
}

}  // namespace troupe
