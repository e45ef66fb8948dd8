#include "tools/cli/learning_context.h"

#include "envs/make_env.h"
#include "models/make_model.h"
#include "runtime/weights/process_group.h"

namespace troupe {

std::shared_ptr<RunContext> learning_context(const RunConfig& config) {
  if (config.deterministic) compute_reproducibly();
  auto context = std::make_shared<RunContext>();
  context->config = config;
  context->make_env = [](const EnvConfig& env) { return make_env(env); };
  context->make_evaluation_env = [config](int64_t rows) {
    return make_evaluation_env(config.env, config.evaluation.env_params, rows);
  };
  EnvConfig one = config.env;
  one.rows = 1;
  context->spec = make_env(one)->spec();
  context->recurrence = recurrence_of(config, context->spec);
  context->make_policy = [config, spec = context->spec] { return make_policy(config, spec); };
  context->use_threads = set_compute_threads;
  context->threads = !config.deterministic;
  context->deterministic = config.deterministic;
  // Snapshots of the weights are in host memory, whatever the trainer's device is.
  context->make_group_backend = [](const std::string& address) { return make_group_backend("gloo", {address}); };
  return context;
}

std::unique_ptr<Learner> learner_of(const RunContext& context) { return make_learner(context.config, context.spec); }

}  // namespace troupe
