#include "models/decoder/lora.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

constexpr int64_t kMostRank = 1024;

[[noreturn]] void refuse(const std::string& path, const Json& value, const std::string& expected) {
  throw ConfigError(path + ": " + printable(value.dump()) + ", expected " + expected);
}

std::string target_list() {
  std::string result;
  for (const std::string_view target : kLoraTargets) result += (result.empty() ? "" : ", ") + std::string(target);
  return result;
}

void read_targets(const Json& value, const std::string& path, LoraConfig& lora) {
  const std::string expected = "a list of some of " + target_list();
  if (!value.is_array() || value.empty()) refuse(path, value, expected);
  for (const Json& item : value) {
    const std::string name = item.is_string() ? item.get<std::string>() : "";
    const auto found = std::ranges::find(kLoraTargets, name);
    if (found == kLoraTargets.end()) refuse(path, item, expected);
    bool& target = lora.targets[static_cast<size_t>(found - kLoraTargets.begin())];
    if (target) refuse(path, item, "each layer once");
    target = true;
  }
}

}  // namespace

LoraConfig lora_from_config(std::string_view text, const std::string& path) {
  const Json object = parse_strict(text, path);
  if (!object.is_object()) refuse(path, object, "an object with rank, alpha and targets");
  LoraConfig lora;
  if (object.empty()) return lora;
  lora.targets[static_cast<size_t>(LmLinear::query)] = lora.targets[static_cast<size_t>(LmLinear::value)] = true;
  for (const auto& [key, value] : object.items()) {
    const std::string place = path + '.' + key;
    if (key == "rank") {
      if (!value.is_number_integer() || value < 1 || value > kMostRank)
        refuse(place, value, "a whole number from 1 to " + std::to_string(kMostRank));
      lora.rank = value.get<int64_t>();
    } else if (key == "alpha") {
      if (!value.is_number() || !(value.get<double>() > 0) || !(value.get<double>() <= 1e6))
        refuse(place, value, "a number above 0, at most 1000000");
      lora.alpha = value.get<double>();
    } else if (key == "targets") {
      lora.targets.fill(false);
      read_targets(value, place, lora);
    } else {
      throw ConfigError(path + '.' + printable(key) + ": unknown key, expected rank, alpha or targets");
    }
  }
  if (lora.rank == 0) throw ConfigError(path + ".rank: is missing, expected a whole number from 1 to 1024");
  if (lora.alpha == 0) lora.alpha = 2 * static_cast<double>(lora.rank);
  return lora;
}

Array merged_linear(const LinearSize& size, const LoraConfig& lora, std::span<const float> w, std::span<const float> a,
                    std::span<const float> b) {
  Array result = Array::uninitialized(DType::f32, {size.outputs, size.inputs});
  const std::span<float> out = result.mutable_view<float>();
  std::vector<double> row(static_cast<size_t>(size.inputs));
  for (int64_t i = 0; i < size.outputs; ++i) {
    const auto at = static_cast<size_t>(i * size.inputs);
    for (size_t j = 0; j < row.size(); ++j) row[j] = w[at + j];
    for (int64_t k = 0; k < lora.rank; ++k) {
      const double factor = static_cast<double>(lora.scale()) * b[static_cast<size_t>(i * lora.rank + k)];
      for (size_t j = 0; j < row.size(); ++j) row[j] += factor * a[static_cast<size_t>(k) * row.size() + j];
    }
    for (size_t j = 0; j < row.size(); ++j) out[at + j] = static_cast<float>(row[j]);
  }
  return result;
}

LinearSize size_of(const LmShape& shape, LmLinear linear) {
  switch (linear) {
    case LmLinear::query: return {shape.hidden, shape.query_width()};
    case LmLinear::key:
    case LmLinear::value: return {shape.hidden, shape.kv_width()};
    case LmLinear::output: return {shape.query_width(), shape.hidden};
    case LmLinear::gate:
    case LmLinear::up: return {shape.hidden, shape.intermediate};
    case LmLinear::down: return {shape.intermediate, shape.hidden};
  }
  TROUPE_CHECK(false, "linear", static_cast<int>(linear));
  return {};
}

std::string linear_prefix(int64_t layer, LmLinear linear) {
  const char* block = linear < LmLinear::gate ? "self_attn." : "mlp.";
  return lm_layer_prefix(layer) + block + std::string(kLoraTargets[static_cast<size_t>(linear)]) + '.';
}

std::vector<LmTensor> lora_tensors(const LmShape& shape, const LoraConfig& lora) {
  std::vector<LmTensor> result;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (size_t i = 0; i < kLmLinears; ++i) {
      const auto linear = static_cast<LmLinear>(i);
      if (!lora.has(linear)) continue;
      const auto [inputs, outputs] = size_of(shape, linear);
      const std::string prefix = linear_prefix(layer, linear);
      result.push_back({prefix + "lora_A.weight", {lora.rank, inputs}});
      result.push_back({prefix + "lora_B.weight", {outputs, lora.rank}});
    }
  }
  return result;
}

}  // namespace troupe
