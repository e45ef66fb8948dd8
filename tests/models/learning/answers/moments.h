#pragma once
// Compares what two learners have saved of their optimizers.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "runtime/base/array.h"

namespace troupe::test {

// The largest difference of two elements, as a fraction of the largest element of their array.
inline double worst_difference(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (const auto& [name, array] : a) {
    if (array.dtype() != DType::f32) continue;
    const auto x = array.view<float>(), y = b.at(name).view<float>();
    double scale = 1e-30, difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      scale = std::max(scale, std::abs(double{x[i]}));
      difference = std::max(difference, std::abs(double{x[i]} - double{y[i]}));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

}  // namespace troupe::test
