#pragma once
// Learners in the two forms of an update, and the distance between their results.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "models/torch/learning/network_learner.h"
#include "models/weights/weight_block.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

namespace troupe::test {

inline std::unique_ptr<Learner> learner_of(const RunConfig& config, const EnvSpec& spec, bool device_form) {
  return make_network_learner(config, spec, {.device_form = device_form});
}

// The largest difference divided by the largest number, over all tensors.
inline double distance(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  REQUIRE(a.size() == b.size());
  double result = 0;
  for (const auto& [name, array] : a) {
    const Array& other = b.at(name);
    REQUIRE(array.size() == other.size());
    double largest = 1e-9, difference = 0;
    const auto compare = [&](auto x, auto y) {
      for (size_t i = 0; i < x.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(y[i])));
        difference = std::max(difference, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
        if (std::isnan(x[i]) != std::isnan(y[i])) difference = 1e9;
      }
    };
    if (array.dtype() == DType::f64)
      compare(array.view<double>(), other.view<double>());
    else
      compare(array.view<float>(), other.view<float>());
    result = std::max(result, difference / largest);
  }
  return result;
}

// `weight_tolerance`: of the weights, if it is not that of the moments.
inline void check_learners(const Learner& device, const Learner& host, double tolerance, double weight_tolerance = 0) {
  const LearnerState a = device.save(), b = host.save();
  CHECK(distance(a.model, b.model) < std::max(tolerance, weight_tolerance));
  CHECK(distance(a.optimizer, b.optimizer) < tolerance);
  CHECK((a.scalars == b.scalars));
  WeightBlock published(*device.published_signature());
  published.load(*device.snapshot({0, 1}));
  CHECK((published.save() == a.model));
}

}  // namespace troupe::test
