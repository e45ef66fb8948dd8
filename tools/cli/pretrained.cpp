#include "tools/cli/pretrained.h"

#include <filesystem>
#include <optional>
#include <string>

#include "actors/config/config.h"
#include "models/decoder/lora.h"
#include "models/lm/lm_model.h"
#include "models/networks/model_meaning.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/checkpoint.h"
#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/config_lookup.h"

namespace troupe {
namespace {

// The folder of the checkpoint that `path` names; the path itself if it names none.
std::string checkpoint_of(const std::string& path) {
  std::optional<CheckpointPath> named = checkpoint_path(path);
  if (!named && is_run_folder(path)) named = CheckpointPath{path, "newest"};
  if (!named) return path;
  return load_checkpoint(named->run, load_config(named->run + "/config.json", ConfigSource::run), named->which).path;
}

// The model of the run that wrote a checkpoint; nothing for a file, which does not say.
std::optional<ModelConfig> model_of(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return std::nullopt;
  const std::string settings = read_checkpoint_settings(posix_disk(), path);
  if (settings.empty()) return std::nullopt;
  return parse_config(settings, path + "/state.json", ConfigSource::run).model;
}

void use_base(RunConfig& config) {
  ModelConfig& model = config.model;
  if (model.kind != kTokenTransformerKind || model.path.empty()) return;
  if (!lora_from_config(model.lora, "model.lora").used()) return;
  const std::string given = model.path;
  try {
    model.path = checkpoint_of(with_home(given));
    const std::optional<ModelConfig> base = model_of(model.path);
    if (!base) return;
    if (base->lora != ModelConfig().lora)
      throw ConfigError("was trained with model.lora " + printable(base->lora) +
                        "; give a run that has trained all weights");
    if (model.decoder == ModelConfig().decoder) model.decoder = base->decoder;
    ModelConfig without = model;
    without.lora = base->lora;
    require_same_meaning(*base, without, environment_of(config));
  } catch (const std::runtime_error& refused) {
    throw ConfigError("model.path: " + printable(given, 200) + ": " + refused.what());
  }
}

}  // namespace

void use_pretrained(RunConfig& config) {
  if (!is_token_run(config)) return use_base(config);
  resolve_model_path(config.model);
  config.reward_model.path = with_home(config.reward_model.path);
  if (!config.model.path.empty() && config.tokenizer.kind == "bpe" && config.tokenizer.path.empty())
    config.tokenizer.path = config.model.path;
}

}  // namespace troupe
