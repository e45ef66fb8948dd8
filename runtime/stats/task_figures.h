#pragma once
// Figures of the episodes of each task, or of the answers to the prompts of each source. Plain data; any thread.

#include <map>
#include <string>

namespace troupe {

// By the name of the task; empty where episodes have none. Unknown figures are absent.
struct TaskFigures {
  std::map<std::string, double> return_mean;   // unscaled
  std::map<std::string, double> length_mean;   // environment steps, or tokens
  std::map<std::string, double> success_rate;  // where the environment reports success
};

}  // namespace troupe
