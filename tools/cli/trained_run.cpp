#include "tools/cli/trained_run.h"

#include "models/make_model.h"
#include "runtime/base/errors.h"
#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/learning_context.h"

namespace troupe {

namespace {

// A learner that only reads checkpoints: wherever the run was trained, the CPU will do.
std::unique_ptr<Learner> make_reader(const RunContext& context) {
  LearnerConfig config = context.config;
  config.trainer.device = "cpu";
  return make_learner(config, context.spec);
}

}  // namespace

TrainedRun load_trained_run(const std::string& folder, const std::string& which, const std::string& device) {
  require_run_folder(folder);
  const RunConfig config = load_stored_config(folder + "/config.json");
  const std::shared_ptr<RunContext> context =
      learning_context(config, {.evaluation = device_elsewhere(device, config, "evaluation.device")});
  context->use_threads(static_cast<int>(config.inference.threads));

  const std::unique_ptr<Learner> learner = make_reader(*context);
  const auto [checkpoint, path] = load_checkpoint(folder, config, which, learner->signature()->total_bytes());
  try {
    learner->load({checkpoint.model, checkpoint.optimizer, checkpoint.scalars});
  } catch (const ConfigError& misfit) {
    throw ConfigError(path + ": " + misfit.what());
  }
  TrainedRun run{context, context->make_evaluation_policy(), checkpoint.version, checkpoint.env_steps};
  run.policy->load(*learner->snapshot(checkpoint.version));
  return run;
}

}  // namespace troupe
