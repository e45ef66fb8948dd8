#pragma once
// Schedules of the learning rate and of coefficients. Pure functions of how far a run has come; any thread.

#include <cstdint>
#include <string_view>

namespace troupe {

enum class LearningRateKind : uint8_t { constant = 0, linear = 1, cosine = 2, wsd = 3 };

// The kind called `name` in a run file (`trainer.lr_schedule`). Throws ConfigError naming the nearest.
LearningRateKind find_learning_rate_kind(std::string_view name);

// Steps are whatever the caller counts: updates, environment steps, or a fraction with total = 1.
struct LearningRateSchedule {
  LearningRateKind kind = LearningRateKind::constant;
  double start = 0;           // before this step the factor is 0
  double warmup = 0;          // steps from 0 to the peak after `start`, linear
  double total = 0;           // the step at which the decay ends; the factor stays there
  double min_ratio = 0;       // of the peak, at the end
  double stable_ratio = 0.9;  // wsd: part of the time after warm-up that is spent at the peak
};

// The learning rate at `step` as a fraction of its peak: warmup_factor * decay_factor. When start + warmup reaches
// total, the decay is over as soon as the warm-up is.
double learning_rate_factor(const LearningRateSchedule& schedule, double step);

// peak times that. Throws ConfigError naming the setting and its value when one is not finite or negative, or a ratio
// is above 1.
double learning_rate(const LearningRateSchedule& schedule, double peak, double step);

// min(steps / warmup, 1) for steps since the start, so 0 at the first; 1 when warmup is 0.
double warmup_factor(double steps, double warmup);

// From 1 at progress 0 to min_ratio at progress 1, by kind; progress is clamped to [0, 1]. Always 1 for constant.
double decay_factor(LearningRateKind kind, double progress, double min_ratio = 0, double stable_ratio = 0.9);

// start at progress 0, end at progress 1, straight between; progress is clamped to [0, 1].
double linear(double start, double end, double progress);

}  // namespace troupe
