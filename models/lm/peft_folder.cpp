#include "models/lm/peft_folder.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "models/lm/hf_folder.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

namespace {

constexpr const char* kConfig = "/adapter_config.json";
constexpr std::string_view kPrefix = "base_model.model.";

std::set<std::string> targets_of(const LoraConfig& lora) {
  std::set<std::string> targets;
  for (size_t i = 0; i < kLmLinears; ++i)
    if (lora.targets[i]) targets.emplace(kLoraTargets[i]);
  return targets;
}

bool is_empty(const Json& value) {
  return value.is_null() || value == false || value == "" || ((value.is_array() || value.is_object()) && value.empty());
}

bool has_targets(const Json& value, const LoraConfig& lora) {
  std::set<std::string> targets;
  if (!value.is_array()) return false;
  for (const Json& target : value)
    if (target.is_string()) targets.insert(target.get<std::string>());
  return targets == targets_of(lora);
}

// Throws unless the config describes adapters that compute as those of model.lora.
void check_config(const Json& config, const LoraConfig& lora, const std::string& path) {
  const auto value_of = [&](const char* key) {
    const auto found = config.find(key);
    return found == config.end() ? Json() : *found;
  };
  const auto refuse = [&](const char* key, const std::string& expected) {
    throw ConfigError(path + ": " + key + " is " + printable(value_of(key).dump()) + ", expected " + expected);
  };
  if (value_of("peft_type") != "LORA") refuse("peft_type", "\"LORA\"");
  if (value_of("r") != lora.rank) refuse("r", Json(lora.rank).dump() + ", the rank of model.lora");
  if (value_of("lora_alpha") != lora.alpha) refuse("lora_alpha", Json(lora.alpha).dump() + ", the alpha of model.lora");
  if (!has_targets(value_of("target_modules"), lora))
    refuse("target_modules", Json(targets_of(lora)).dump() + ", the targets of model.lora");
  for (const char* key : {"use_dora", "use_rslora", "fan_in_fan_out", "modules_to_save", "rank_pattern",
                          "alpha_pattern", "layers_to_transform"})
    if (!is_empty(value_of(key))) refuse(key, "none");
  if (const Json bias = value_of("bias"); !is_empty(bias) && bias != "none") refuse("bias", "\"none\"");
}

Array as_float32(const Array& array, const std::string& what) {
  if (array.dtype() == DType::f32) return array;
  Array result(DType::f32, array.shape());
  const std::span<float> to = result.mutable_view<float>();
  if (array.dtype() == DType::f16)
    std::ranges::transform(array.view<Float16>(), to.begin(), [](Float16 x) { return to_float(x); });
  else if (array.dtype() == DType::bf16)
    std::ranges::transform(array.view<BFloat16>(), to.begin(), [](BFloat16 x) { return to_float(x); });
  else
    throw ConfigError(what + " is " + std::string(name_of(array.dtype())) + ", expected float32, float16 or bfloat16");
  return result;
}

using Metadata = std::map<std::string, std::string>;

std::optional<LmShape> base_of(const Disk& disk, const Json& config, const Metadata& metadata,
                               const std::string& source) {
  if (const auto kept = metadata.find(kBaseConfig); kept != metadata.end())
    return lm_shape_from_config(kept->second, source + ": metadata " + kBaseConfig);
  const auto name = config.find("base_model_name_or_path");
  if (name == config.end() || !name->is_string()) return std::nullopt;
  const std::string folder = name->get<std::string>();
  if (folder.find('\0') != std::string::npos || !is_hf_folder(disk, folder)) return std::nullopt;
  const std::string file = folder + "/config.json";
  return lm_shape_from_config(disk.read(file, kMaxReadBytes), printable(file, 200));
}

// The tensor, without numbers, that names the frozen weights of the adapters.
void add_frozen_name(const Metadata& metadata, const Signature& signature, std::map<std::string, Array>& tensors) {
  const auto kept = metadata.find(kBaseHash);
  for (const TensorSpec& spec : signature.tensors)
    if (spec.group == TensorGroup::buffer)
      tensors.emplace(kept == metadata.end() ? spec.name : frozen_name(kept->second), Array(spec.dtype, spec.shape));
}

}  // namespace

bool is_peft_folder(const Disk& disk, const std::string& folder) { return disk.exists(folder + kConfig); }

PeftAdapters read_peft_adapters(const Disk& disk, const std::string& folder, const LoraConfig& lora,
                                const Signature& signature) {
  const std::string config = folder + kConfig, shown = printable(config, 200);
  if (!lora.used()) throw ConfigError(shown + ": has adapters, but the run has none; set model.lora");
  const Json document = parse_strict(disk.read(config, kMaxReadBytes), shown);
  if (!document.is_object()) throw ConfigError(shown + ": is not an object");
  check_config(document, lora, shown);
  const std::string file = folder + "/adapter_model.safetensors";
  Safetensors contents = read_safetensors(disk, file);
  PeftAdapters result{{}, base_of(disk, document, contents.metadata, printable(file, 200))};
  for (auto& [name, array] : contents.tensors) {
    const std::string what = printable(file, 200) + ": tensor " + printable(name);
    if (!name.starts_with(kPrefix))
      throw ConfigError(what + " is unknown, expected a name that begins with base_model.model.");
    result.tensors.emplace(name.substr(kPrefix.size()), as_float32(array, what));
  }
  add_frozen_name(contents.metadata, signature, result.tensors);
  return result;
}

}  // namespace troupe
