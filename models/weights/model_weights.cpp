#include "models/weights/model_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/heads/heads.h"
#include "models/networks/inputs.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

void add_normalizer(Signature& signature, const std::string& prefix, int64_t features) {
  signature.tensors.push_back({TensorGroup::buffer, prefix + ".count", {}, DType::f64});
  signature.tensors.push_back({TensorGroup::buffer, prefix + ".m2", {features}, DType::f64});
  signature.tensors.push_back({TensorGroup::buffer, prefix + ".mean", {features}, DType::f64});
}

// Whether the weights that the model begins with have the normaliser that it has.
void check_normalizer(const Signature& model, const std::map<std::string, Array>& given, const std::string& prefix,
                      const char* setting) {
  const std::string mean = prefix + ".mean";
  const auto own = std::ranges::find(model.tensors, mean, &TensorSpec::name);
  const auto other = given.find(mean);
  const bool has = own != model.tensors.end(), had = other != given.end();
  if (has != had)
    throw ConfigError(std::string("model.path: was trained with ") + setting + (had ? " true" : " false") +
                      ", this run has " + (has ? "true" : "false") + "; give this run the same value");
  if (has && !(other->second.shape() == own->shape && other->second.dtype() == own->dtype))
    throw ConfigError("model.path: tensor " + mean + " is " + std::string(name_of(other->second.dtype())) + ' ' +
                      other->second.shape().text() + ", this run's model has " + own->text());
}

double dot(const double* a, const double* b, int64_t n) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A [rows, columns] matrix with orthonormal rows, or columns where there are more rows, times gain: modified
// Gram-Schmidt on normal numbers, each vector orthogonalised twice.
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

void fill_start(const NetworkTensor& tensor, std::span<float> values) {
  std::ranges::fill(values, static_cast<float>(tensor.start));
  if (tensor.start_blocks.empty()) return;
  const size_t size = values.size() / tensor.start_blocks.size();
  for (size_t i = 0; i < tensor.start_blocks.size(); ++i)
    std::ranges::fill(values.subspan(i * size, size), static_cast<float>(tensor.start_blocks[i]));
}

void begin_with(const std::map<std::string, Array>& given, WeightBlock& weights) {
  for (const auto& [name, array] : given) {
    if (!weights.has(name)) continue;
    if (array.dtype() == DType::f64)
      std::ranges::copy(array.view<double>(), weights.doubles(name).begin());
    else
      std::ranges::copy(array.view<float>(), weights.floats(name).begin());
  }
}

}  // namespace

Signature model_signature(const ModelConfig& config, const EnvSpec& env) {
  return model_signature(network_layout(config, env), config, env);
}

Signature model_signature(const NetworkLayout& layout, const ModelConfig& config, const EnvSpec& env) {
  const Head head(env.action);
  Signature result;
  for (const NetworkTensor& tensor : layout.tensors)
    result.tensors.push_back({tensor.group, tensor.name, tensor.shape, DType::f32});
  if (head.continuous()) {
    const TensorGroup group = config.log_std == "scheduled" ? TensorGroup::buffer : TensorGroup::policy;
    result.tensors.push_back({group, kLogStd, {head.decisions()}, DType::f32});
  }
  const int64_t features = InputEncoder(env.observations, layout.inputs).features();
  if (config.normalize_observations && features > 0) add_normalizer(result, kObservationNormalizer, features);
  if (config.normalize_returns) add_normalizer(result, kReturnNormalizer, 1);
  std::ranges::sort(result.tensors, [](const TensorSpec& a, const TensorSpec& b) {
    return a.group != b.group ? a.group < b.group : a.name < b.name;
  });
  if (layout.begins_with == nullptr) return result;
  check_normalizer(result, *layout.begins_with, kObservationNormalizer, "model.normalize_observations");
  check_normalizer(result, *layout.begins_with, kReturnNormalizer, "model.normalize_returns");
  return result;
}

WeightBlock initial_weights(const ModelConfig& config, const EnvSpec& env, uint64_t seed) {
  return initial_weights(network_layout(config, env), config, env, seed);
}

WeightBlock initial_weights(const NetworkLayout& layout, const ModelConfig& config, const EnvSpec& env, uint64_t seed) {
  WeightBlock weights(model_signature(layout, config, env));
  draw_weights(layout, config, seed, weights);
  return weights;
}

void draw_weights(const NetworkLayout& layout, const ModelConfig& config, uint64_t seed, WeightBlock& weights) {
  for (const NetworkTensor& tensor : layout.tensors) {
    const auto values = weights.floats(tensor.name);
    if (tensor.gain == 0.0)
      fill_start(tensor, values);
    else
      fill_orthogonal(Rng(derive_key(seed, tensor.name)), tensor.shape[0], tensor.shape.without_first().elements(),
                      tensor.gain, values);
  }
  if (layout.begins_with != nullptr) begin_with(*layout.begins_with, weights);
  if (weights.has(kLogStd)) std::ranges::fill(weights.floats(kLogStd), static_cast<float>(config.log_std_start));
}

bool has_normalizer(const WeightBlock& weights, const std::string& prefix) { return weights.has(prefix + ".count"); }

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
