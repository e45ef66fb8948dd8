#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/support.h"
#include "tools/bench/training.h"
#include "tools/cli/learning_context.h"

namespace troupe {
namespace {

constexpr int64_t kBatchSteps = 64, kBatchColumns = 32;  // of one super-batch
constexpr size_t kBatches = 4;                           // different super-batches, used in turns

RunConfig trainer_config() {
  RunConfig config = bench_config(kBatchColumns);
  config.rollout.length = kBatchSteps;
  config.trainer.super_batch = kBatchSteps * kBatchColumns;
  return config;
}

SuperBatch bare_batch(const RolloutPtr& rollout, uint64_t index) {
  std::vector<int32_t> columns(kBatchColumns);
  std::iota(columns.begin(), columns.end(), 0);
  return {.index = index, .samples = rollout->samples, .parts = {{rollout, columns}}};
}

// Updates with the same batches, staged before, one after the other on this thread.
class BareTrainer {
 public:
  BareTrainer(const RunContext& context, const std::vector<RolloutPtr>& rollouts) : learner_(learner_of(context)) {
    for (size_t i = 0; i < rollouts.size(); ++i)
      staged_.push_back(learner_->stager()->stage(bare_batch(rollouts[i], i)));
  }

  std::vector<double> run(double seconds) {
    std::vector<double> times;
    for (const auto start = BenchClock::now(); times.empty() || seconds_since(start) < seconds;) {
      const auto begun = BenchClock::now();
      learner_->update(*staged_[turn_++ % staged_.size()], 0.0);
      times.push_back(seconds_since(begun));
    }
    return times;
  }

 private:
  std::unique_ptr<Learner> learner_;
  std::vector<std::unique_ptr<StagedBatch>> staged_;
  size_t turn_ = 0;
};

}  // namespace

BenchReport bench_trainer(double seconds) {
  const auto start = BenchClock::now();
  const std::shared_ptr<RunContext> context = learning_context(trainer_config());
  context->use_threads(1);
  const std::unique_ptr<Policy> policy = context->make_policy();
  std::vector<RolloutPtr> rollouts;
  std::vector<BenchTraining::Batch> batches;
  for (size_t i = 0; i < kBatches; ++i) {
    rollouts.push_back(made_rollout(*policy, cart_pole_input(kBatchSteps * kBatchColumns), kBatchSteps, i));
    batches.push_back({rollouts.back()});
  }
  BareTrainer bare(*context, rollouts);
  BenchTraining training(context, learner_of(*context), batches);
  bare.run(0.05);
  training.run(0.05);

  constexpr double kShortestTurn = 0.2;
  const double turn = std::max(kShortestTurn, seconds / 20);
  std::vector<double> ratios, bare_seconds, update_seconds;
  double waited = 0, trained = 0;
  do {
    const double plain = median(bare.run(turn / 2));
    const BenchTraining::Slice slice = training.run(turn / 2);
    bare_seconds.push_back(plain);
    update_seconds.push_back(median(slice.update_seconds));
    ratios.push_back(update_seconds.back() / plain);
    waited += slice.wait_seconds;
    trained += std::accumulate(slice.update_seconds.begin(), slice.update_seconds.end(), 0.0);
  } while (seconds_since(start) + turn < seconds);

  const double wait_fraction = waited / (waited + trained);
  const nlohmann::ordered_json json{{"samples_per_update", kBatchSteps * kBatchColumns},
                                    {"epochs", context->config.trainer.epochs},
                                    {"minibatches", context->config.trainer.minibatches},
                                    {"turns", ratios.size()},
                                    {"ratio_to_bare_loop", median(ratios)},
                                    {"wait_fraction", wait_fraction},
                                    {"update_ms", 1e3 * median(update_seconds)},
                                    {"bare_update_ms", 1e3 * median(bare_seconds)}};
  return {json.dump(),
          {"updates of " + format_count(kBatchSteps * kBatchColumns) + " samples, " +
               std::to_string(context->config.trainer.epochs) + " epochs of " +
               std::to_string(context->config.trainer.minibatches) + " minibatches; medians of " +
               std::to_string(ratios.size()) + " turns",
           "bare loop  " + format_number(1e3 * median(bare_seconds), 2) + " ms per update",
           "trainer    " + format_number(1e3 * median(update_seconds), 2) + " ms per update, " +
               format_number(median(ratios), 3) + " of the bare loop",
           "waiting    " + format_number(100 * wait_fraction, 2) + " % of the trainer's time"}};
}

}  // namespace troupe
