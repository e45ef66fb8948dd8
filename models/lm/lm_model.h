#pragma once
// LmModel: what the learner and all generators of a run share: the shape, where the first weights come from, and with
// LoRA the frozen weights. Constant once made; any thread.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "models/decoder/lm_shape.h"
#include "models/decoder/lora.h"
#include "models/lm/packed_models.h"
#include "models/networks/model_config.h"
#include "models/weights/weight_block.h"

namespace troupe {

class HfFolder;

struct LmModel;

// Weights that are not trained. Constant but for release(); any thread.
struct FrozenWeights {
  WeightBlock weights;  // empty after release()
  std::string hash;     // XXH3 of them, 16 hexadecimal digits
  PackedModels packed;  // the form in use in this process
  PackedPtr only;       // after release()

  // Keeps the packed form alone, which is all that a process needs that trains or generates without a separate critic.
  // While nothing else uses the weights.
  void release(const LmModel& model, ParallelFor& parallel);
};

// The value function of a model: none, a head on the hidden rows of the policy, or a decoder of its own with a head.
enum class CriticKind : uint8_t { none = 0, shared = 1, separate = 2 };
// The kind with this name in a config file (`model.critic`). Throws ConfigError.
CriticKind find_critic(std::string_view name, std::string_view path = "model.critic");

struct LmModel {
  // A model that begins with random weights. Implicit: a shape is all that such a model has.
  LmModel(const LmShape& of = {}) : shape(of) {}  // NOLINT(google-explicit-constructor)

  LmShape shape;
  // Ids below this are tokens of the tokenizer; 0 = all of the vocabulary, which can be larger. The others have no part
  // in the distribution over the next token.
  int64_t tokens = 0;
  std::string path;  // the folder of the first weights (models/lm/hf_folder.h); empty = random
  LoraConfig lora;
  std::shared_ptr<FrozenWeights> frozen;  // only with lora
  CriticKind critic = CriticKind::none;
  std::string critic_path;  // the folder of the first weights of a separate critic; empty = those of the policy
  // Of those in snapshots. Copies of this model share them.
  std::shared_ptr<PackedModels> packed = std::make_shared<PackedModels>();

  // How many ids can be drawn.
  int64_t drawable() const { return tokens > 0 ? tokens : shape.vocabulary; }
};

// A path that begins with ~, with the home folder in place of that.
std::string with_home(const std::string& path);

// The folder model.critic_path: a model of tokens, or a reward model. Throws ConfigError that begins with
// model.critic_path.
HfFolder critic_folder(const std::string& path);

// Fills what a config leaves to model.path: model.path begins with ~ = the home folder; model.decoder {} = that of the
// folder's config.json. The same of the model.critic_path of a separate critic. Throws ConfigError beginning with
// model.path or model.critic_path when the folder is not a model that can be read, or is not the model that
// model.decoder describes.
void resolve_model_path(ModelConfig& config);

// The model of a run with this shape. Reads the frozen weights of a run with adapters. Throws ConfigError.
LmModel load_lm_model(const ModelConfig& config, const LmShape& shape);

}  // namespace troupe
