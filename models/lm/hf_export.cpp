#include "models/lm/hf_export.h"

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/lm/lm_config.h"
#include "models/lm/peft_folder.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {
namespace {

constexpr int kIndent = 2;

Json ids_of(const ExportedIds& ids) {
  Json result = Json::object();
  if (ids.bos) result["bos_token_id"] = *ids.bos;
  if (ids.ends.size() == 1)
    result["eos_token_id"] = ids.ends.front();
  else if (!ids.ends.empty())
    result["eos_token_id"] = ids.ends;
  if (ids.pad) result["pad_token_id"] = *ids.pad;
  return result;
}

}  // namespace

std::map<std::string, Array> merge_adapters(const LmModel& model, const std::map<std::string, Array>& adapters) {
  std::map<std::string, Array> result = model.frozen->weights.save();
  for (int64_t layer = 0; layer < model.shape.layers; ++layer) {
    for (size_t i = 0; i < kLmLinears; ++i) {
      const auto linear = static_cast<LmLinear>(i);
      if (!model.lora.has(linear)) continue;
      const std::string prefix = linear_prefix(layer, linear);
      Array& weight = result.at(prefix + "weight");
      weight = merged_linear(size_of(model.shape, linear), model.lora, weight.view<float>(),
                             adapters.at(prefix + "lora_A.weight").view<float>(),
                             adapters.at(prefix + "lora_B.weight").view<float>());
    }
  }
  return result;
}

void write_hf_model(Disk& disk, const std::string& folder, const LmShape& shape, const ExportedIds& ids,
                    const std::map<std::string, Array>& tensors) {
  write_safetensors(disk, folder + "/model.safetensors", tensors, {{"format", "pt"}});
  const Json config = parse_strict(lm_config_text(shape, ids_of(ids).dump()), "config.json");
  disk.write_atomic(folder + "/config.json", config.dump(kIndent) + '\n');
}

void write_generation_config(Disk& disk, const std::string& folder, const LmModel& model, const ExportedIds& ids,
                             int64_t answer_tokens) {
  Json config = ids_of(ids);
  config["do_sample"] = false;
  config["max_new_tokens"] = answer_tokens;
  for (int64_t id = model.drawable(); id < model.shape.vocabulary; ++id) config["suppress_tokens"].push_back(id);
  disk.write_atomic(folder + "/generation_config.json", config.dump(kIndent) + '\n');
}

void write_peft_adapters(Disk& disk, const std::string& folder, const LmModel& model,
                         const std::map<std::string, Array>& adapters) {
  std::map<std::string, Array> named;
  for (const LmTensor& tensor : lora_tensors(model.shape, model.lora))
    named["base_model.model." + tensor.name] = adapters.at(tensor.name);
  write_safetensors(disk, folder + "/adapter_model.safetensors", named,
                    {{"format", "pt"}, {kBaseHash, model.frozen->hash}, {kBaseConfig, lm_config_text(model.shape)}});
  Json targets = Json::array();
  for (size_t i = 0; i < kLmLinears; ++i)
    if (model.lora.targets[i]) targets.push_back(std::string(kLoraTargets[i]));
  const Json config{{"peft_type", "LORA"},
                    {"task_type", "CAUSAL_LM"},
                    {"base_model_name_or_path", std::filesystem::absolute(model.path).string()},
                    {"r", model.lora.rank},
                    {"lora_alpha", model.lora.alpha},
                    {"lora_dropout", 0.0},
                    {"target_modules", targets},
                    {"bias", "none"},
                    {"fan_in_fan_out", false},
                    {"inference_mode", true}};
  disk.write_atomic(folder + "/adapter_config.json", config.dump(kIndent) + '\n');
}

}  // namespace troupe
