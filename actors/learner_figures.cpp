#include "actors/learner_figures.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "runtime/stats/snapshot.h"

namespace troupe {

namespace {

enum class Kind : uint8_t { mean, last, sum, smallest, largest };

Kind kind_of(std::string_view metric) {
  for (const std::string_view name : {"policy_lr", "value_lr", "kl_coef", "log_std"})
    if (metric == name) return Kind::last;
  if (metric == "skipped_steps") return Kind::sum;
  if (metric == "ratio_min") return Kind::smallest;
  return metric == "ratio_max" || metric == "rollout_weight_max" ? Kind::largest : Kind::mean;
}

}  // namespace

void LearnerFigures::add(const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) {
    Sum& sum = sums_[name];
    const Kind kind = kind_of(name);
    if (kind == Kind::last) {
      sum = {value, 1};
    } else if (std::isfinite(value)) {
      const bool first = sum.count++ == 0;
      if (first) {
        sum.value = value;
      } else if (kind == Kind::largest) {
        sum.value = std::max<double>(sum.value, value);
      } else if (kind == Kind::smallest) {
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
    const double count = kind_of(name) == Kind::mean ? static_cast<double>(sum.count) : 1.0;
    taken_[name] = sum.count == 0 ? kUnknown : sum.value / count;
  }
  sums_.clear();
  return {taken_.begin(), taken_.end()};
}

}  // namespace troupe
