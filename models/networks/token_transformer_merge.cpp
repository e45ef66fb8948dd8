#include "models/networks/token_transformer_merge.h"

#include <memory>

#include "models/decoder/lora.h"
#include "models/networks/token_transformer_base.h"
#include "models/networks/token_transformer_layout.h"

namespace troupe {

std::map<std::string, Array> merged_token_transformer(const ModelConfig& config, const EnvSpec& env,
                                                      const std::map<std::string, Array>& saved) {
  const LmShape shape = token_transformer_shape(config, env);
  const LoraConfig lora = lora_from_config(config.lora, "model.lora");
  const std::shared_ptr<const TokenTransformerBase> base = token_transformer_base(config.path);
  std::map<std::string, Array> result = saved;
  result.erase(kFrozenPrefix + base->hash);
  for (const LmTensor& tensor : lm_tensors(shape))
    if (const std::string name = kTokenDecoderPrefix + tensor.name; is_of_base(tensor.name))
      result[name] = base->tensors.at(name);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (size_t i = 0; i < kLmLinears; ++i) {
      const auto linear = static_cast<LmLinear>(i);
      if (!lora.has(linear)) continue;
      const std::string prefix = kTokenDecoderPrefix + linear_prefix(layer, linear);
      Array& weight = result.at(prefix + "weight");
      weight = merged_linear(size_of(shape, linear), lora, weight.view<float>(),
                             saved.at(prefix + "lora_A.weight").view<float>(),
                             saved.at(prefix + "lora_B.weight").view<float>());
      result.erase(prefix + "lora_A.weight");
      result.erase(prefix + "lora_B.weight");
    }
  }
  return result;
}

}  // namespace troupe
