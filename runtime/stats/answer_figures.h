#pragma once
// What a run reports of the answers of its language model, besides means. Plain data; any thread. A figure without a
// value yet is NaN.

#include <cstdint>

#include "runtime/stats/unknown.h"

namespace troupe {

struct AnswerFigures {
  // Over all starts of the run.
  uint64_t tokens = 0;          // of the answers that arrived at replay
  uint64_t trained_tokens = 0;  // of those that updates have used, without masked ones
  // Of the answers that arrived at replay since this start (deterministic runs: of the run).
  double turns_mean = kUnknown;
  double turns_max = kUnknown;
  // Tokens of the answers in the statistics window.
  double length_min = kUnknown;
  double length_p50 = kUnknown;
  double length_p95 = kUnknown;
  double length_max = kUnknown;
  // Of the newest answers, as many as the statistics window, those that reached the largest number of tokens.
  double cut_fraction = kUnknown;
  // Of the newest groups, those whose answers all have the same reward.
  double groups_alike = kUnknown;
};

}  // namespace troupe
