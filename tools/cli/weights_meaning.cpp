#include "tools/cli/weights_meaning.h"

#include <algorithm>
#include <iterator>

#include <nlohmann/json.hpp>

#include "actors/spec_fields.h"
#include "models/lm/lm_config.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "tasks/python_task.h"
#include "text/same_tokenizer.h"
#include "tools/cli/made_of.h"

namespace troupe {
namespace {

bool is_of_ids(const SpecFields::value_type& field) {
  return field.first == kTokenizerKind || field.first == kAlphabet || field.first == kTokenizerHash;
}

// The fields of a tokenizer that the run kept, or else those of the files that its config names, if they are there.
SpecFields tokenizer_in_run(const RunConfig& config, const std::string& run) {
  SpecFields fields;
  if (const std::optional<SpecFields> kept = run.empty() ? std::nullopt : read_made_of(run)) {
    std::ranges::copy_if(*kept, std::back_inserter(fields), is_of_ids);
    return fields;
  }
  if (is_python_task(config.task) && config.tokenizer.alphabet.empty() && config.tokenizer.kind == "char")
    return fields;  // only its process knows the characters
  try {
    return tokenizer_fields(*run_tokenizer(config));
  } catch (const ConfigError&) {
    return fields;
  }
}

void require_same_shape(const LmShape& weights, const LmModel& model) {
  LmShape comparable = weights;
  comparable.vocabulary = model.shape.vocabulary;
  comparable.max_positions = model.shape.max_positions;
  if (comparable == model.shape) return;
  throw ConfigError("has the weights of another model: " + lm_differences(comparable, model.shape) + "; " +
                    (model.path.empty() ? "give this run the model.decoder of its source"
                                        : "give this run the model.path and model.decoder of its source"));
}

void require_same_alpha(double alpha, const LoraConfig& lora) {
  if (alpha == lora.alpha) return;
  throw ConfigError("has adapters with the alpha " + nlohmann::json(alpha).dump() + ", model.lora has " +
                    nlohmann::json(lora.alpha).dump() + "; give this run the model.lora of its source");
}

[[noreturn]] void refuse_tokenizer(const std::string& how) {
  throw ConfigError("was trained with another tokenizer: " + how + "; give this run the tokenizer of its source");
}

void require_same_ids(const SpecFields& weights, const RunContext& context) {
  std::string changes;
  for (const std::string& change : made_of_changes(weights, tokenizer_fields(*context.tokens->tokenizer)))
    changes += (changes.empty() ? "" : "; ") + change;
  if (!changes.empty()) refuse_tokenizer(changes);
}

}  // namespace

WeightsMeaning meaning_in_run(const RunConfig& config, const std::string& run) {
  WeightsMeaning meaning;
  if (!is_token_run(config)) return meaning;
  meaning.shape = lm_shape_of(config.model, 1, 1);
  const LoraConfig lora = lora_from_config(config.model.lora, "model.lora");
  if (lora.used()) meaning.alpha = lora.alpha;
  meaning.tokenizer = tokenizer_in_run(config, run);
  return meaning;
}

WeightsMeaning meaning_in_folder(const std::optional<LmShape>& shape, const std::string& folder) {
  WeightsMeaning meaning{.shape = shape};
  if (posix_disk().exists(folder + "/tokenizer.json")) meaning.tokenizer_folder = folder;
  return meaning;
}

void require_same_base(const std::map<std::string, Array>& tensors, const LmModel& model) {
  if (!model.frozen) return;
  for (const auto& [name, array] : tensors)
    if (const auto hash = frozen_hash_in(name); hash && *hash != model.frozen->hash)
      throw ConfigError("has adapters of weights with the hash " + printable(*hash) + ", those in model.path have " +
                        model.frozen->hash + "; give this run the model.path of its source");
}

void require_same_meaning(const WeightsMeaning& weights, const RunContext& context, const std::string& file) {
  const LmModel& model = *context.language_model;
  if (weights.shape) require_same_shape(*weights.shape, model);
  if (weights.alpha) require_same_alpha(*weights.alpha, model.lora);
  if (!weights.tokenizer_folder.empty()) {
    if (const auto difference = tokenizer_difference(posix_disk(), *context.tokens->tokenizer, context.config.tokenizer,
                                                     weights.tokenizer_folder, "its tokenizer"))
      refuse_tokenizer(*difference);
  } else if (!weights.tokenizer.empty()) {
    require_same_ids(weights.tokenizer, context);
  } else {
    log_warn("train", printable(file, 200) + ": does not say with which " +
                          (weights.shape ? "" : "rope_theta, rms_norm_eps and ") +
                          "tokenizer it was trained; they are not compared");
  }
}

}  // namespace troupe
