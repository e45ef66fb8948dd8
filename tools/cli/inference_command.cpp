#include "tools/cli/inference_command.h"

#include <memory>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/experience/answers/reward_model_check.h"
#include "actors/experience/answers/shared_token_run.h"
#include "actors/inference.h"
#include "actors/inference_host.h"
#include "envs/make/make_env.h"
#include "models/devices.h"
#include "models/torch/compute.h"
#include "runtime/base/log.h"
#include "tools/cli/launch.h"
#include "tools/cli/learning_context.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/token_context.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

// Of a scorer that computes with a reward model alone: it reads no other model.
std::shared_ptr<RunContext> context_without_policy(const RunConfig& config) {
  auto context = std::make_shared<RunContext>();
  context->config = config;
  add_tokens(*context);
  return context;
}

// Throws ConfigError "RUN: ...".
RunContextPtr inference_context(const std::string& run, const std::string& device, Role role, const std::string& config,
                                const std::shared_ptr<ActorBoard>& board) try {
  const RunConfig settings = parse_config(config, "the run's config");
  require_environment_of(run, settings.env.id);
  std::shared_ptr<RunContext> context;
  if (needs_weights(settings, role)) {
    const std::string used = device_elsewhere(device, settings, "inference.device");
    context = learning_context(settings, {.inference = used, .weights = used});
  } else {
    context = context_without_policy(settings);
  }
  context->board = board;
  if (role == Role::scoring && settings.reward_model.by_scorers()) {
    check_reward_model(settings, *context->tokens);
    add_reward_model(*context);
  }
  if (context->tokens) context->tokens = without_prompts(*context->tokens);
  return context;
} catch (const ConfigError& misfit) {
  throw ConfigError(about_run(run, misfit.what()));
}

int run(Role role, const InferenceOptions& options) {
  if (!options.device.empty()) require_device("--device", options.device, gpu_count());
  constexpr size_t kActors = 3;  // host, inference, receiver_actor
  constexpr size_t kMore = 8;    // of LibTorch, and of the connections that bring weights
  return run_host(
      {options.connect, options.wait}, kActors + kMore,
      [&](caf::actor_system& system, const RunAddress& run, const auto& on_end) {
        const auto make_context = [address = options.connect.text(), flag = options.device, role,
                                   board = std::make_shared<ActorBoard>()](const std::string& config) -> RunContextPtr {
          return inference_context(address, flag, role, config, board);
        };
        return Stoppable(system.spawn<caf::detached>(
            inference_host, InferenceHostDependencies{run, make_context, route_to, on_end, role}));
      });
}

}  // namespace

int run_inference(const InferenceOptions& options) { return run(Role::sampling, options); }

int run_scorer(const InferenceOptions& options) { return run(Role::scoring, options); }

}  // namespace troupe
