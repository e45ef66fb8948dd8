#include "models/networks/mlp_parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

constexpr double kVarianceFloor = 1e-8;

void add_layer(Signature& signature, const std::string& name, int64_t outputs, int64_t inputs) {
  signature.tensors.push_back({TensorKind::parameter, name + ".bias", {outputs}, DType::f32});
  signature.tensors.push_back({TensorKind::parameter, name + ".weight", {outputs, inputs}, DType::f32});
}

void add_trunk(Signature& signature, const std::string& prefix, const ModelConfig& config, int64_t features) {
  int64_t inputs = features;
  for (size_t i = 0; i < config.hidden.size(); ++i) {
    add_layer(signature, prefix + '.' + std::to_string(i), config.hidden[i], inputs);
    inputs = config.hidden[i];
  }
}

void add_normalizer(Signature& signature, const std::string& prefix, int64_t features) {
  signature.tensors.push_back({TensorKind::buffer, prefix + ".count", {}, DType::f64});
  signature.tensors.push_back({TensorKind::buffer, prefix + ".m2", {features}, DType::f64});
  signature.tensors.push_back({TensorKind::buffer, prefix + ".mean", {features}, DType::f64});
}

double dot(const double* a, const double* b, int64_t n) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A [rows, columns] matrix with orthonormal rows, or columns where there are more rows, times gain: modified Gram-Schmidt on
// normal numbers, each vector cleaned twice.
void fill_orthogonal(Rng rng, int64_t rows, int64_t columns, double gain, std::span<float> out) {
  const int64_t vectors = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<double> basis(vectors * length);
  for (double& x : basis) x = rng.normal();
  for (int64_t v = 0; v < vectors; ++v) {
    double* vector = basis.data() + v * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t u = 0; u < v; ++u) {
        const double* other = basis.data() + u * length;
        const double projection = dot(vector, other, length);
        for (int64_t i = 0; i < length; ++i) vector[i] -= projection * other[i];
      }
    }
    const double scale = 1.0 / std::sqrt(dot(vector, vector, length));
    for (int64_t i = 0; i < length; ++i) vector[i] *= scale;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      out[r * columns + c] =
          static_cast<float>(gain * (rows <= columns ? basis[r * length + c] : basis[c * length + r]));
}

double gain_of(const ModelConfig& config, const std::string& name) {
  if (name == "policy.head.weight") return config.policy_gain;
  if (name == "value.head.weight") return 1.0;
  return std::numbers::sqrt2;
}

}  // namespace

Signature mlp_signature(const ModelConfig& config, int64_t features, const Head& head) {
  const int64_t top = config.hidden.empty() ? features : config.hidden.back();
  Signature result;
  if (config.shared_trunk) {
    add_trunk(result, "trunk", config, features);
  } else {
    add_trunk(result, "policy", config, features);
    add_trunk(result, "value", config, features);
  }
  add_layer(result, "policy.head", head.outputs(), top);
  add_layer(result, "value.head", 1, top);
  if (head.continuous()) {
    const TensorKind kind = config.log_std == "scheduled" ? TensorKind::buffer : TensorKind::parameter;
    result.tensors.push_back({kind, kLogStd, {head.decisions()}, DType::f32});
  }
  if (config.normalize_observations) add_normalizer(result, kObservationNormalizer, features);
  if (config.normalize_returns) add_normalizer(result, kReturnNormalizer, 1);
  std::sort(result.tensors.begin(), result.tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.name < b.name;
  });
  return result;
}

WeightBlock initial_mlp(const ModelConfig& config, uint64_t seed, int64_t features, const Head& head) {
  WeightBlock weights(mlp_signature(config, features, head));
  for (const TensorSpec& spec : weights.signature()->tensors) {
    if (spec.name == kLogStd) {
      std::ranges::fill(weights.floats(spec.name), static_cast<float>(config.log_std_start));
    } else if (spec.kind == TensorKind::parameter && spec.shape.rank() == 2) {
      fill_orthogonal(Rng(derive_key(seed, spec.name)), spec.shape[0], spec.shape[1], gain_of(config, spec.name),
                      weights.floats(spec.name));
    }
  }
  return weights;
}

bool is_value_parameter(const std::string& name) { return name.starts_with("value."); }

RunningNormalizer read_normalizer(const WeightBlock& weights, const std::string& prefix) {
  const auto mean = weights.doubles(prefix + ".mean"), m2 = weights.doubles(prefix + ".m2");
  return {weights.doubles(prefix + ".count")[0], {mean.begin(), mean.end()}, {m2.begin(), m2.end()}};
}

void write_normalizer(const RunningNormalizer& normalizer, const std::string& prefix, WeightBlock& weights) {
  weights.doubles(prefix + ".count")[0] = normalizer.count();
  std::ranges::copy(normalizer.mean(), weights.doubles(prefix + ".mean").begin());
  std::ranges::copy(normalizer.m2(), weights.doubles(prefix + ".m2").begin());
}

void check_buffers(const WeightBlock& weights) {
  for (const char* prefix : {kObservationNormalizer, kReturnNormalizer})
    if (weights.has(std::string(prefix) + ".count")) read_normalizer(weights, prefix);
}

ValueUnits value_units(const WeightBlock& weights) {
  if (!weights.has(std::string(kReturnNormalizer) + ".count")) return {};
  const RunningNormalizer normalizer = read_normalizer(weights, kReturnNormalizer);
  return {static_cast<float>(std::sqrt(normalizer.variance(0) + kVarianceFloor)),
          static_cast<float>(normalizer.mean()[0])};
}

}  // namespace troupe
