#include "tools/cli/rank_command.h"

#include <memory>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/experience/answers/shared_token_run.h"
#include "actors/rank_host.h"
#include "envs/make/make_env.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "tools/cli/launch.h"
#include "tools/cli/learning_context.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/worker_process.h"

namespace troupe {
namespace {

// Throws ConfigError "RUN: ...".
RunContextPtr rank_context(const std::string& run, const std::string& config,
                           const std::shared_ptr<ActorBoard>& board) try {
  const RunConfig settings = parse_config(config, "the run's config");
  require_environment_of(run, settings.env.id);
  const std::shared_ptr<RunContext> context =
      learning_context(settings, {.inference = settings.trainer.device, .evaluation = settings.trainer.device});
  context->board = board;
  if (context->tokens) context->tokens = without_prompts(*context->tokens);
  context->make_learner = [context = context.get()] { return learner_of(*context); };
  return context;
} catch (const ConfigError& misfit) {
  throw ConfigError(about_run(run, misfit.what()));
}

int run_rank_at(const HostStart& start) {
  constexpr size_t kActors = 2;  // host, rank trainer
  constexpr size_t kMore = 8;    // of LibTorch
  return run_host(start, kActors + kMore, [&](caf::actor_system& system, const RunAddress& run, const auto& on_end) {
    const auto make_context = [address = start.connect.text(), board = std::make_shared<ActorBoard>()](
                                  const std::string& config) { return rank_context(address, config, board); };
    return Stoppable(system.spawn<caf::detached>(rank_host, RankHostDependencies{run, make_context, on_end, route_to}));
  });
}

}  // namespace

int run_rank(const RankOptions& options) {
  return run_rank_at({.connect = options.connect, .wait = options.wait, .launched = options.of_run});
}

int run_launched_rank(const Launch& launch, const std::string& config) {
  print_line(launch.text() + ": joins rank 0 at " + launch.rank0.text());
  return run_rank_at({.connect = launch.rank0,
                      .wait = kLaunchWait.count(),
                      .source = launch.found + ": rank 0 at",
                      .config = config,
                      .launched = true});
}

}  // namespace troupe
