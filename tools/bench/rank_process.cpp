#include "tools/bench/rank_process.h"

#include <memory>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/rank_host.h"
#include "tools/bench/rank_context.h"
#include "tools/cli/launch.h"
#include "tools/cli/worker_process.h"

namespace troupe {

namespace {

constexpr int64_t kWait = 30;  // seconds for which it looks for rank 0

RunContextPtr context_of(const BenchRankOptions& options, const std::string& config) {
  const std::shared_ptr<RunContext> context =
      bench_run_context(parse_config(config, "the run's config"), options.observations);
  if (options.floats > 0)
    context->make_learner = [options, shards = static_cast<size_t>(context->config.trainer.shards)] {
      return std::make_shared<RoundLearner>(RoundOptions{shards, options.floats, static_cast<uint64_t>(options.rounds)},
                                            nullptr);
    };
  return context;
}

}  // namespace

std::vector<std::string> bench_rank_command_of(int64_t observations) {
  return {program_folder() + "/troupe-bench", "bench_rank", "--observations", std::to_string(observations)};
}

std::vector<std::string> bench_rank_command_of(const RoundOptions& rounds) {
  return {program_folder() + "/troupe-bench", "bench_rank", "--floats",
          std::to_string(rounds.floats),      "--rounds",   std::to_string(rounds.rounds)};
}

int run_bench_rank(const BenchRankOptions& options) {
  constexpr size_t kActors = 2;  // host, rank trainer
  constexpr size_t kMore = 8;    // of LibTorch
  return run_host(
      {options.connect, kWait}, kActors + kMore,
      [&](caf::actor_system& system, const RunAddress& run, const auto& on_end) {
        const auto make_context = [options](const std::string& config) { return context_of(options, config); };
        return Stoppable(
            system.spawn<caf::detached>(rank_host, RankHostDependencies{run, make_context, on_end, route_to}));
      });
}

}  // namespace troupe
