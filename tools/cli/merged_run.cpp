#include "tools/cli/merged_run.h"

#include <memory>
#include <utility>

#include "actors/config/config.h"
#include "actors/spec_fields.h"
#include "envs/make/make_env.h"
#include "models/decoder/lora.h"
#include "models/networks/token_transformer_merge.h"
#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"
#include "tools/cli/made_of.h"

namespace troupe {

RunContext adapters_context(const std::string& run, const RunConfig& config) {
  if (config.model.kind != kTokenTransformerKind || !lora_from_config(config.model.lora, "model.lora").used())
    throw ConfigError(printable(run, 200) + ": model.kind is \"" + config.model.kind + "\" with model.lora " +
                      printable(config.model.lora) + ", --run is for \"" + std::string(kTokenTransformerKind) +
                      "\" with adapters");
  RunContext context;
  context.config = config;
  EnvConfig one = config.env;
  one.rows = 1;
  context.spec = make_env(one)->spec();
  context.signature = std::make_shared<const Signature>(model_signature(config.model, context.spec));
  return context;
}

void write_merged_run(const RunContext& adapters, Checkpoint checkpoint, const std::string& folder) {
  RunContext merged;
  merged.config = adapters.config;
  merged.config.model.lora = ModelConfig().lora;
  merged.config.model.path = ModelConfig().path;
  merged.spec = adapters.spec;
  merged.signature = std::make_shared<const Signature>(model_signature(merged.config.model, merged.spec));
  checkpoint.model = merged_token_transformer(adapters.config.model, adapters.spec, checkpoint.model);
  checkpoint.optimizer.clear();
  checkpoint.extras.clear();
  const std::string text = to_json(merged.config);
  posix_disk().write_atomic(folder + "/config.json", text.ends_with('\n') ? text : text + '\n');
  keep_made_of(folder, made_of(merged));
  CheckpointStore(posix_disk(), folder + "/checkpoints", {fixed_settings(text, settings_of_run()), settings_of_run()})
      .save(checkpoint);
}

}  // namespace troupe
