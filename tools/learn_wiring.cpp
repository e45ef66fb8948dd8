#include "tools/learn_wiring.h"

#include "envs/make_env.h"
#include "models/make_model.h"
#include "runtime/process_group.h"

namespace troupe {

namespace {

// A deterministic run that is resumed goes on in the middle of its episodes.
void require_saveable(Env& env) {
  EnvStep step = EnvStep::allocate(env.spec(), env.rows());
  env.reset(0, 0, step);
  std::string bytes;
  if (!env.save(bytes))
    throw ConfigError("deterministic: true needs an environment that can save its state, and " + env.spec().id +
                      " cannot; give its row a plain `state` (docs/environments.md), or use false");
}

}  // namespace

std::shared_ptr<Wiring> learn_wiring(const RunConfig& config) {
  if (config.deterministic) compute_reproducibly();
  auto wiring = std::make_shared<Wiring>();
  wiring->config = config;
  wiring->make_env = [](const EnvConfig& env) { return make_env(env); };
  wiring->make_evaluation_env = [config](int64_t rows) { return make_evaluation_env(config, rows); };
  EnvConfig one = config.env;
  one.rows = 1;
  const std::unique_ptr<Env> env = make_env(one);
  wiring->spec = env->spec();
  make_evaluation_env(config, 1);  // a mistake in its parameters must not wait for the first evaluation
  if (config.deterministic) require_saveable(*env);
  wiring->make_policy = [config, spec = wiring->spec] { return make_policy(config, spec); };
  wiring->use_threads = set_compute_threads;
  wiring->threads = !config.deterministic;
  wiring->in_turns = config.deterministic;
  // Snapshots lie in host memory, whatever the trainer's device.
  wiring->make_group_backend = [](const std::string& address) { return make_group_backend("gloo", {address}); };
  return wiring;
}

std::unique_ptr<Learner> learner_of(const Wiring& wiring) { return make_learner(wiring.config, wiring.spec); }

}  // namespace troupe
