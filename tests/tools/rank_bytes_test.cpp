// Ranks in processes of their own that are fed with the same rollouts. Weights and moments have the same bytes for any
// number of ranks, whatever they divide among them, and however their gradients travel.

#include <memory>
#include <string>
#include <vector>

#include "tests/support/run_command.h"
#include "tests/support/test.h"
#include "tools/bench/rank_context.h"
#include "tools/bench/training.h"

using namespace troupe;

namespace {

constexpr int64_t kObservations = 4, kShards = 4;
constexpr uint64_t kUpdates = 40;

struct Division {
  int64_t ranks = 1, zero = 0;
  std::string redundancy = "none", backend = "auto";
};

RunConfig small_run() {
  RunConfig config = bench_run_config({.shards = kShards, .ranks = 1, .hidden = {32, 32}, .minibatch = 256});
  config.model.normalize_observations = config.model.normalize_returns = true;
  config.trainer.bucket_bytes = 1024;  // several pieces
  return config;
}

std::vector<BenchTraining::Batch> made_batches(const RunConfig& config) {
  constexpr size_t kBatches = 3;  // used in turns
  const std::unique_ptr<Policy> policy = bench_run_context(config, kObservations)->make_policy();
  std::vector<BenchTraining::Batch> batches(kBatches);
  uint64_t index = 0;
  for (BenchTraining::Batch& batch : batches)
    for (int64_t shard = 0; shard < kShards; ++shard, ++index)
      batch.push_back(
          made_rollout(*policy, normal_input(kBenchSteps * config.env.rows, kObservations, index), kBenchSteps, index));
  return batches;
}

// What is published after all updates.
Array weights_after(RunConfig config, const std::vector<BenchTraining::Batch>& batches, const Division& division) {
  config.trainer.ranks = division.ranks;
  config.trainer.zero = division.zero;
  config.trainer.redundancy = division.redundancy;
  config.network.backend = division.backend;
  const std::shared_ptr<RunContext> context = bench_run_context(config, kObservations);
  context->use_threads(1);
  const std::shared_ptr<Learner> learner = context->make_learner();
  BenchTraining training(context, learner, batches,
                         {.command = {test::built_program("troupe-bench"), "bench_rank", "--observations",
                                      std::to_string(kObservations)}});
  training.run_updates(kUpdates);
  return learner->snapshot({})->flat;
}

void check_divisions(const RunConfig& config) {
  const std::vector<BenchTraining::Batch> batches = made_batches(config);
  const Array wanted = weights_after(config, batches, {});
  for (const int64_t ranks : {2, 4})
    for (const int64_t zero : {0, 1, 2})
      for (const std::string backend : {"messages", "gloo"}) {
        CAPTURE(ranks);
        CAPTURE(zero);
        CAPTURE(backend);
        const bool copies = zero > 0 && ranks == 4;
        CHECK(weights_after(config, batches, {ranks, zero, copies ? "neighbour" : "none", backend}) == wanted);
      }
}

}  // namespace

TEST_CASE("rank bytes: with both normalisers") { check_divisions(small_run()); }

TEST_CASE("rank bytes: with V-trace") {
  RunConfig config = small_run();
  config.algorithm.advantage = "vtrace";
  check_divisions(config);
}
