#include "tools/trained_run.h"

#include "runtime/checkpoint.h"
#include "runtime/errors.h"
#include "tools/config_lookup.h"
#include "tools/learn_wiring.h"

namespace troupe {

TrainedRun load_trained_run(const std::string& folder) {
  require_run_folder(folder);
  const std::shared_ptr<Wiring> wiring = learn_wiring(load_run_config(folder + "/config.json"));
  wiring->use_threads(static_cast<int>(wiring->config.inference.threads));

  const CheckpointStore checkpoints(posix_disk(), folder + "/checkpoints");
  if (checkpoints.list().empty())
    throw ConfigError(folder + ": has no checkpoint yet, expected a run of `troupe train` that has written one");
  const std::optional<Checkpoint> checkpoint = checkpoints.load_newest();
  if (!checkpoint) throw ConfigError(folder + ": no checkpoint is whole, expected at least one");
  const std::unique_ptr<Learner> learner = learner_of(*wiring);
  try {
    learner->load({checkpoint->model, checkpoint->optimizer, checkpoint->scalars});
  } catch (const ConfigError& misfit) {
    throw ConfigError(checkpoints.path_of(checkpoint->updates) + ": " + misfit.what());
  }
  TrainedRun run{wiring, wiring->make_policy(), checkpoint->version, checkpoint->env_steps};
  run.policy->load(*learner->snapshot(checkpoint->version));
  return run;
}

}  // namespace troupe
