#include "actors/experience/answers/reward_model_check.h"

#include <string>

#include "models/lm/reward_model.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "text/same_tokenizer.h"

namespace troupe {

void check_first_weights(const RunConfig& config, const TokenRun& run) {
  const auto check = [&](const std::string& folder, const std::string& setting) {
    if (folder.empty() || !posix_disk().exists(folder + "/tokenizer.json")) return;
    if (const auto difference = tokenizer_difference(posix_disk(), *run.tokenizer, config.tokenizer, folder, setting))
      throw ConfigError(setting + ": " + *difference + "; the model needs its own tokenizer");
  };
  if (config.tokenizer.kind == "char") check(config.model.path, "model.path");
  if (config.model.critic == "separate") check(config.model.critic_path, "model.critic_path");
}

void check_reward_model(const RunConfig& config, const TokenRun& run) {
  const std::string& path = config.reward_model.path;
  if (path.empty()) return;
  const LmShape shape = reward_model_shape(posix_disk(), path);
  const std::string source = "reward_model.path: " + printable(path, 200);
  if (const auto difference =
          tokenizer_difference(posix_disk(), *run.tokenizer, config.tokenizer, path, "reward_model.path"))
    throw ConfigError("reward_model.path: " + *difference + "; a reward model must have the same tokenizer");
  if (shape.vocabulary < run.tokenizer->vocabulary_size())
    throw ConfigError(source + ": config.json says vocab_size " + std::to_string(shape.vocabulary) +
                      ", but the tokenizer has " + std::to_string(run.tokenizer->vocabulary_size()) + " tokens");
  const int64_t positions = run.prompt_tokens + run.conversation_tokens();
  if (shape.max_positions < positions)
    throw ConfigError(source + ": config.json says max_position_embeddings " + std::to_string(shape.max_positions) +
                      ", but a prompt and an answer may have " + std::to_string(positions) + " tokens together");
}

std::string missing_reward_model(const RunConfig& config) {
  const std::string& path = config.reward_model.path;
  if (path.empty() || posix_disk().exists(path)) return "";
  try {
    reward_model_shape(posix_disk(), path);
  } catch (const ConfigError& missing) {
    return missing.what();
  }
  return "";
}

}  // namespace troupe
