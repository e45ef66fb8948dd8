#pragma once
// Schedules of the learning rate and of coefficients: pure functions of the progress of a run; any thread.

#include <cstdint>
#include <string_view>

namespace troupe {

enum class LearningRateKind : uint8_t { constant = 0, linear = 1, cosine = 2, wsd = 3 };

// The kind with this name in a config file (`trainer.lr_schedule`). Throws ConfigError with the nearest known name.
LearningRateKind find_learning_rate_kind(std::string_view name);

// The caller chooses the unit of a step: updates, environment steps, or a fraction of the run with total = 1.
struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::constant;
  double start = 0;           // the factor is 0 before this step
  double warmup = 0;          // steps of linear warm-up from 0 to the peak, after `start`
  double total = 0;           // step at which the decay ends; the factor is constant after it
  double min_ratio = 0;       // factor at the end of the decay
  double stable_ratio = 0.9;  // wsd: fraction of the time after warm-up spent at the peak
};

// The learning rate at `step` as a fraction of its peak: warmup_factor * decay_factor. When start + warmup >= total,
// the decay has ended when the warm-up ends.
double learning_rate_factor(const LearningRateSchedule& schedule, double step);

// peak * learning_rate_factor. Throws ConfigError with the setting and its value when one is negative or not finite, or
// when a ratio is above 1.
double learning_rate(const LearningRateSchedule& schedule, double peak, double step);

// min(steps / warmup, 1) for the steps since the start, so 0 at the first step; 1 when warmup is 0.
double warmup_factor(double steps, double warmup);

// From 1 at progress 0 to min_ratio at progress 1, by kind; progress is clamped to [0, 1]. Always 1 for constant.
double decay_factor(LearningRateKind kind, double progress, double min_ratio = 0, double stable_ratio = 0.9);

// Linear from `start` at progress 0 to `end` at progress 1; progress is clamped to [0, 1].
double linear(double start, double end, double progress);

}  // namespace troupe
