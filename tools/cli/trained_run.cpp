#include "tools/cli/trained_run.h"

#include "actors/experience/answers/reward_model_check.h"
#include "actors/resume.h"
#include "actors/spec_fields.h"
#include "models/learning/answers/answer_learner.h"
#include "models/weights/initial_weights.h"
#include "models/weights/weight_block.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/learning_context.h"
#include "tools/cli/made_of.h"
#include "tools/cli/token_context.h"

namespace troupe {

TrainedRun load_trained_run(const std::string& folder, const std::string& which, const std::string& device,
                            const std::vector<std::string>& moved) {
  require_run_folder(folder);
  const RunConfig config = load_stored_config(folder + "/config.json", moved);
  const std::shared_ptr<RunContext> context =
      learning_context(config, {.evaluation = device_elsewhere(device, config, "evaluation.device")});
  require_made_of(folder, made_of(*context));
  context->use_threads(static_cast<int>(config.inference.threads));

  WeightBlock weights(*context->signature);
  WeightsPtr reference;
  const auto [checkpoint, path] = load_checkpoint(folder, config, which, weights.signature()->total_bytes());
  try {
    weights.load(checkpoint.model);
    check_initial_weights(*weights.signature(), checkpoint.model);
    // Before the end of a warm-up there is none yet.
    if (config.reference.used() && !in_warmup(checkpoint)) {
      const std::map<std::string, Array> saved = saved_reference(checkpoint.optimizer);
      check_initial_weights(*weights.published(), saved);
      WeightBlock block(*weights.published());
      block.load(saved);
      reference = block.snapshot(checkpoint.version);
    }
  } catch (const ConfigError& misfit) {
    throw ConfigError(path + ": " + misfit.what());
  }
  return {context,
          weights.snapshot(checkpoint.version),
          reference,
          checkpoint.version,
          checkpoint.env_steps,
          warmup_steps_of(checkpoint)};
}

void read_reward_model(const TrainedRun& run, const std::string& folder) {
  RunContext& context = *run.context;
  if (!context.config.reward_model.used()) return;
  try {
    check_reward_model(context.config, *context.tokens);
    add_reward_model(context);
  } catch (const ConfigError& mistake) {
    throw ConfigError(folder + "/config.json: " + mistake.what());
  }
  require_made_of(folder, made_of(context));
}

std::string not_finite_line(const std::string& folder, const std::string& which, const NotFinite& failure) {
  return "troupe: " + printable(folder, std::string::npos) + ": " + failure.what() +
         "; the weights of the checkpoint (" + which +
         ") are damaged or too large; choose another one with --checkpoint";
}

}  // namespace troupe
