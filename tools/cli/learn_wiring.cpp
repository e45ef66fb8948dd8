#include "tools/cli/learn_wiring.h"

#include "envs/make_env.h"
#include "models/make_model.h"
#include "runtime/weights/process_group.h"

namespace troupe {

std::shared_ptr<Wiring> learn_wiring(const RunConfig& config) {
  if (config.deterministic) compute_reproducibly();
  auto wiring = std::make_shared<Wiring>();
  wiring->config = config;
  wiring->make_env = [](const EnvConfig& env) { return make_env(env); };
  wiring->make_evaluation_env = [config](int64_t rows) { return make_evaluation_env(config, rows); };
  EnvConfig one = config.env;
  one.rows = 1;
  wiring->spec = make_env(one)->spec();
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
