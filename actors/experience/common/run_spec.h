#pragma once
// RunSpec: what a run is, as far as it decides the shape of its experience. Constant once made.

#include <functional>
#include <memory>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/generator.h"
#include "models/learning/recurrence.h"
#include "models/policy.h"
#include "models/reference_model.h"

namespace troupe {

class RewardModel;
class Grader;
struct TokenRun;

struct RunSpec {
  RunConfig config;
  std::shared_ptr<const TokenRun> tokens;  // of a token run (is_token_run()); a run on an environment has what follows
  std::shared_ptr<RewardModel> reward_model;  // of one with reward_model.path, in processes that score answers
  // What scores answers beside the reward model, one for each verifier process; empty: what the settings say.
  std::function<std::vector<std::shared_ptr<Grader>>()> make_task_graders;
  EnvSpec spec;
  Recurrence recurrence;
};

// What actors make of a run. A factory is empty in a process that needs it not: one that only hosts workers makes no
// models.
struct RunFactories {
  std::function<std::unique_ptr<Env>(const EnvConfig&)> make_env;
  std::function<std::unique_ptr<Policy>()> make_policy;
  // For evaluations: an environment of `rows` rows, and a policy, which may use another device; empty: make_policy.
  std::function<std::unique_ptr<Env>(int64_t rows)> make_evaluation_env;
  std::function<std::unique_ptr<Policy>()> make_evaluation_policy;
  // Token runs: a generator for an inference actor or an evaluation, which samples at this temperature.
  std::function<std::unique_ptr<Generator>(double temperature)> make_generator;
  // Of a run with a reference: one for a scorer or an evaluation, of distributions at this temperature.
  std::function<std::unique_ptr<ReferenceModel>(double temperature, int64_t threads)> make_reference;
  // An actor that computes calls this on its thread before it starts, with the number of compute threads it may use.
  std::function<void(int)> use_threads = [](int) {};
};

}  // namespace troupe
