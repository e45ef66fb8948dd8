#pragma once
// What a run reports of the answers of its language model, besides means. Plain data; any thread. A figure without a
// value yet is NaN.

#include <limits>

namespace troupe {

struct AnswerFigures {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  // Of the answers that arrived at replay since this start (deterministic runs: of the run).
  double turns_mean = kNone;
  double turns_max = kNone;
  // Tokens of the answers in the statistics window.
  double length_min = kNone;
  double length_p50 = kNone;
  double length_p95 = kNone;
  double length_max = kNone;
  // Of the newest groups, those whose answers all have the same reward.
  double groups_alike = kNone;
};

}  // namespace troupe
