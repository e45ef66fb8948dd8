#include "models/lm/lm_model.h"

#include <array>
#include <cstdlib>

#include "algorithms/common/names.h"
#include "models/lm/hf_folder.h"
#include "models/lm/lm_config.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

std::string with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return home != nullptr && (path == "~" || path.starts_with("~/")) ? home + path.substr(1) : path;
}

namespace {

std::shared_ptr<FrozenWeights> load_frozen(const HfFolder& folder) {
  auto result = std::make_shared<FrozenWeights>(WeightBlock(lm_signature(folder.shape())));
  folder.read([&](const std::string& name) { return result->weights.floats(name); });
  const std::span<const float> all = result->weights.parameters();
  result->hash = format_hash(checksum_of(all.data(), all.size_bytes()));
  return result;
}

constexpr std::array<std::string_view, 3> kCriticNames = {"none", "shared", "separate"};

}  // namespace

CriticKind find_critic(std::string_view name, std::string_view path) {
  return static_cast<CriticKind>(find_name(path, name, kCriticNames));
}

HfFolder critic_folder(const std::string& path) {
  return {posix_disk(), path, "model.critic_path", hf_head(posix_disk(), path)};
}

void resolve_model_path(ModelConfig& config) {
  if (!config.critic_path.empty() && config.critic == "separate") {
    config.critic_path = with_home(config.critic_path);
    critic_folder(config.critic_path);
  }
  if (config.path.empty()) return;
  config.path = with_home(config.path);
  const HfFolder folder(posix_disk(), config.path);
  if (config.decoder == ModelConfig().decoder)
    config.decoder = lm_config_text(folder.shape());
  else if (const LmShape given = lm_shape_from_setting(config.decoder, "model.decoder"); given != folder.shape())
    throw ConfigError("model.decoder: is not the model in model.path: " + lm_differences(given, folder.shape()) +
                      "; remove model.decoder, or set model.path to the folder of that model");
}

LmModel load_lm_model(const ModelConfig& config, const LmShape& shape) {
  LmModel model(shape);
  model.path = config.path;
  model.critic = find_critic(config.critic);
  model.critic_path = config.critic_path;
  model.lora = lora_from_config(config.lora, "model.lora");
  if (!model.lora.used()) return model;
  if (config.path.empty())
    throw ConfigError("model.lora: " + printable(config.lora) +
                      " needs pre-trained weights, and model.path is empty; set model.path");
  const HfFolder folder(posix_disk(), config.path);
  if (shape != folder.shape())
    throw ConfigError("model.path: " + printable(config.path + "/config.json", 200) + " is not the model of the run: " +
                      lm_differences(folder.shape(), shape) + "; give the folder of that model");
  model.frozen = load_frozen(folder);
  return model;
}

}  // namespace troupe
