#include "models/weights/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// Larger statistics of normalisers would overflow, in the float64 sums or in the float32 numbers computed from them.
constexpr double kLargestMean = 1e30;
constexpr double kLargestVariance = kLargestMean * kLargestMean;
constexpr double kLargestCount = 9007199254740992;  // 2^53: one more sample would change nothing

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

std::string text_of(double x) {
  std::ostringstream text;
  text << x;
  return text.str();
}

// `most` per number of the tensor.
void check_statistic(const std::string& name, const Array& array, double least, double most) {
  for (const double x : array.view<double>()) {
    if (x < least && least == 0) throw ConfigError("tensor " + name + " holds a negative number");
    if (x < least || x > most)
      throw ConfigError("tensor " + name + " holds " + text_of(x) + ", expected at most " + text_of(most) + " in size");
  }
}

void check_statistics(const std::string& normalizer, const std::map<std::string, Array>& tensors) {
  const Array& count = tensors.at(normalizer + ".count");
  check_statistic(normalizer + ".count", count, 0, kLargestCount);
  check_statistic(normalizer + ".mean", tensors.at(normalizer + ".mean"), -kLargestMean, kLargestMean);
  check_statistic(normalizer + ".m2", tensors.at(normalizer + ".m2"), 0,
                  kLargestVariance * std::max(1.0, count.view<double>()[0]));
}

bool is_of_critic(const TensorSpec& spec) { return spec.group == TensorGroup::critic; }

// Of the tensors in a file, which have no groups.
bool is_critic_name(const std::string& name) { return name.starts_with("critic."); }

bool has_critic(const std::map<std::string, Array>& tensors) {
  return std::ranges::any_of(tensors, [](const auto& tensor) { return is_critic_name(tensor.first); });
}

}  // namespace

void check_initial_weights(const Signature& model, const std::map<std::string, Array>& tensors) {
  for (const TensorSpec& spec : model.tensors) check_fits(spec, tensors);
  const WeightBlock weights(model);
  for (const auto& [name, array] : tensors)
    if (!weights.has(name))
      throw ConfigError("tensor " + printable(name) + " is " + text_of(array.dtype(), array.shape()) +
                        ", this run's model has no such tensor");
  for (const std::string normalizer : {kObservationNormalizer, kReturnNormalizer})
    if (weights.has(normalizer + ".count")) check_statistics(normalizer, tensors);
}

void check_given_weights(const Signature& model, const std::map<std::string, Array>& tensors) {
  if (!begins_critic(model, tensors)) return check_initial_weights(model, tensors);
  Signature without = model;
  std::erase_if(without.tensors, is_of_critic);
  check_initial_weights(without, tensors);
}

bool begins_critic(const Signature& model, const std::map<std::string, Array>& tensors) {
  return std::ranges::any_of(model.tensors, is_of_critic) && !has_critic(tensors);
}

void leave_out_other_critic(const Signature& model, std::map<std::string, Array>& tensors) {
  const auto fits = [&](const TensorSpec& spec) {
    const auto found = tensors.find(spec.name);
    return !is_of_critic(spec) ||
           (found != tensors.end() && found->second.dtype() == spec.dtype && found->second.shape() == spec.shape);
  };
  const auto of_critic = [](const auto& tensor) { return is_critic_name(tensor.first); };
  const bool same_number =
      std::ranges::count_if(tensors, of_critic) == std::ranges::count_if(model.tensors, is_of_critic);
  if (same_number && std::ranges::all_of(model.tensors, fits)) return;
  std::erase_if(tensors, of_critic);
}

}  // namespace troupe
