#pragma once
// How long a process of an environment may take, and the setting that says so. Plain functions.

#include <chrono>
#include <string>

namespace troupe {

inline constexpr const char* kStepTimeout = "env.step_timeout_ms";
inline constexpr const char* kStartTimeout = "env.start_timeout_ms";

// Lowers a limit to that of an evaluation; 0 = it has none.
inline void lower(std::chrono::milliseconds& limit, std::string& setting, std::chrono::milliseconds of_evaluation) {
  if (of_evaluation.count() == 0 || of_evaluation >= limit) return;
  limit = of_evaluation;
  setting = "evaluation.timeout_ms";
}

}  // namespace troupe
