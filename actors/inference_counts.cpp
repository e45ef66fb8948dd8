#include "actors/inference_counts.h"

#include <algorithm>

namespace troupe {

void add_counts(InferenceReport& sum, const InferenceReport& report) {
  for (const auto count :
       {&InferenceReport::batches, &InferenceReport::rows, &InferenceReport::full, &InferenceReport::timeout,
        &InferenceReport::all_waiting, &InferenceReport::failed, &InferenceReport::mixed_answers,
        &InferenceReport::recomputed, &InferenceReport::waited_steps, &InferenceReport::weights_wait_us,
        &InferenceReport::histories, &InferenceReport::reused})
    sum.*count += report.*count;
}

uint64_t busy_between(const InferenceReport& before, const InferenceReport& report) {
  constexpr uint64_t kMost = 10'000'000;
  return report.busy_us > before.busy_us ? std::min(report.busy_us - before.busy_us, kMost) : 0;
}

InferenceReport counts_alone(InferenceReport report) {
  report.batch_rows = report.latency_us = {};
  return report;
}

}  // namespace troupe
