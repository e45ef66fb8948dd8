#include "actors/learner_figures.h"

#include <algorithm>
#include <cmath>

#include "models/learning/metrics.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

void LearnerFigures::add(const std::map<std::string, double>& metrics) {
  ++updates_;
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
    const Summary summary = summary_of(name);
    const uint64_t count = summary == Summary::mean ? sum.count : summary == Summary::share ? updates_ : 1;
    taken_[name] = sum.count == 0 ? kUnknown : sum.value / static_cast<double>(count);
  }
  sums_.clear();
  updates_ = 0;
  return {taken_.begin(), taken_.end()};
}

}  // namespace troupe
