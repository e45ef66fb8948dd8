#include "tools/bench/rank_context.h"

#include <chrono>
#include <string>

#include "models/learning/recurrence.h"
#include "models/torch/compute.h"
#include "models/torch/learning/make_model.h"
#include "models/weights/model_weights.h"
#include "tools/bench/support.h"

namespace troupe {

namespace {

EnvSpec spec_of(int64_t observations) {
  constexpr size_t kActions = 6;
  EnvSpec spec;
  spec.id = "made-up numbers";
  spec.observations = {{"state", DType::f32, {observations}}};
  spec.action.kind = ActionKind::continuous;
  spec.action.low.assign(kActions, -1.0f);
  spec.action.high.assign(kActions, 1.0f);
  return spec;
}

}  // namespace

RunConfig bench_run_config(const BenchRun& run) {
  const int64_t of_a_column = kBenchSteps * run.shards;
  const int64_t columns = (run.minibatch * kBenchMinibatches + of_a_column - 1) / of_a_column;
  RunConfig config = bench_config(columns);
  config.name = "bench";
  config.inference.batch_size = 1;
  config.workers.count = run.shards;
  config.rollout.length = kBenchSteps;
  config.model.hidden = run.hidden;
  config.trainer.shards = run.shards;
  config.trainer.ranks = run.ranks;
  config.trainer.super_batch = columns * of_a_column;
  config.trainer.minibatches = kBenchMinibatches;
  config.trainer.epochs = 1;
  config.trainer.threads = 1;
  config.replay.capacity = 4 * config.trainer.super_batch;
  config.stop.updates = 1'000'000'000;                  // a run must have an end
  config.network.peer_timeout = std::chrono::hours(1);  // also over a slow link
  return config;
}

std::shared_ptr<RunContext> bench_run_context(const RunConfig& config, int64_t observations) {
  auto context = std::make_shared<RunContext>();
  context->config = config;
  context->spec = spec_of(observations);
  context->recurrence = recurrence_of(config, context->spec);
  context->signature = std::make_shared<const Signature>(model_signature(config.model, context->spec));
  context->make_policy = [config, spec = context->spec] { return make_policy(config, spec); };
  context->make_learner = [config, spec = context->spec] { return make_learner(config, spec); };
  context->use_threads = set_compute_threads;
  context->rank_processes = config.trainer.ranks > 1;
  if (sends_gradients(config.network))
    context->make_gradient_backend = [name = config.network.backend](const std::string& address) {
      return make_group_backend(name, {.address = address});
    };
  return context;
}

}  // namespace troupe
