#include "models/weights/initial_weights.h"

#include <algorithm>
#include <cmath>

#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

std::string text_of(DType dtype, const Shape& shape) { return std::string(name_of(dtype)) + ' ' + shape.text(); }

bool is_finite(const Array& array) {
  const auto finite = [](auto x) { return std::isfinite(x); };
  if (array.dtype() == DType::f32) return std::ranges::all_of(array.view<float>(), finite);
  if (array.dtype() == DType::f64) return std::ranges::all_of(array.view<double>(), finite);
  return true;
}

void check_fits(const TensorSpec& spec, const std::map<std::string, Array>& tensors) {
  const std::string wanted = ", this run's model has " + text_of(spec.dtype, spec.shape);
  const auto found = tensors.find(spec.name);
  if (found == tensors.end()) throw ConfigError("tensor " + spec.name + " is missing" + wanted);
  const Array& array = found->second;
  if (array.dtype() != spec.dtype || !(array.shape() == spec.shape))
    throw ConfigError("tensor " + spec.name + " is " + text_of(array.dtype(), array.shape()) + wanted);
  if (!is_finite(array)) throw ConfigError("tensor " + spec.name + " holds a number that is not finite");
}

}  // namespace

void check_initial_weights(const Signature& model, const std::map<std::string, Array>& tensors) {
  for (const TensorSpec& spec : model.tensors) check_fits(spec, tensors);
  const WeightBlock weights(model);
  for (const auto& [name, array] : tensors)
    if (!weights.has(name))
      throw ConfigError("tensor " + name + " is " + text_of(array.dtype(), array.shape()) +
                        ", this run's model has no such tensor");
  for (const std::string prefix : {kObservationNormalizer, kReturnNormalizer})
    for (const std::string& name : {prefix + ".count", prefix + ".m2"})
      if (weights.has(name) && std::ranges::any_of(tensors.at(name).view<double>(), [](double x) { return x < 0; }))
        throw ConfigError("tensor " + name + " holds a negative number");
}

}  // namespace troupe
