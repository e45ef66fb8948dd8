#include "actors/learner_figures.h"

#include <algorithm>
#include <cmath>

#include "models/learning/metrics.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

void LearnerFigures::add(const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) {
    Sum& sum = sums_[name];
    const Summary summary = summary_of(name);
    if (summary == Summary::last) {
      sum = {value, 1};
    } else if (std::isfinite(value)) {
      const bool first = sum.count++ == 0;
      if (first) {
        sum.value = value;
      } else if (summary == Summary::largest) {
        sum.value = std::max<double>(sum.value, value);
      } else if (summary == Summary::smallest) {
        sum.value = std::min<double>(sum.value, value);
      } else {
        sum.value = sum.value + value;
      }
    }
  }
}

std::map<std::string, double> LearnerFigures::take() {
  if (!sums_.empty()) taken_.clear();
  for (const auto& [name, sum] : sums_) {
    const double count = summary_of(name) == Summary::mean ? static_cast<double>(sum.count) : 1.0;
    taken_[name] = sum.count == 0 ? kUnknown : sum.value / count;
  }
  sums_.clear();
  return {taken_.begin(), taken_.end()};
}

}  // namespace troupe
