#include <algorithm>
#include <numeric>

#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/trainer.h"
#include "runtime/base/rng.h"
#include "runtime/caf/system.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/support.h"
#include "tools/cli/learning_context.h"

namespace troupe {
namespace {

constexpr int64_t kSteps = 64, kColumns = 32;  // of one super-batch
constexpr size_t kBatches = 4;                 // different super-batches, used in turns

RunConfig trainer_config() {
  RunConfig config = bench_config(kColumns);
  config.rollout.length = kSteps;
  config.trainer.super_batch = kSteps * kColumns;
  return config;
}

void fill_with_normals(Array& array, Rng& random) {
  for (float& x : array.mutable_view<float>()) x = random.normal();
}

// A rollout as a worker would send it, with random rewards.
RolloutPtr filled_rollout(Policy& policy, uint64_t index) {
  const Shape grid{kSteps, kColumns};
  const ActInput input = cart_pole_input(kSteps * kColumns);
  const ActOutput output = policy.act(input);
  Rng random(derive_key(index, "benchmark rollout"));
  auto rollout = std::make_shared<Rollout>();
  rollout->samples = rollout->env_steps = static_cast<uint64_t>(kSteps * kColumns);
  rollout->grid().observations.set("state", input.observations.at("state").reshaped({kSteps, kColumns, 4}));
  rollout->grid().actions = output.actions.reshaped({kSteps, kColumns, 1, 1});
  rollout->grid().log_probs = output.log_probs.reshaped({kSteps, kColumns, 1});
  rollout->grid().values = output.values.reshaped(grid);
  for (Array* array : {&rollout->grid().next_values, &rollout->grid().rewards, &rollout->grid().advantages,
                       &rollout->grid().returns}) {
    *array = Array(DType::f32, grid);
    fill_with_normals(*array, random);
  }
  for (Array* array : {&rollout->grid().terminated, &rollout->grid().truncated, &rollout->grid().valid})
    *array = Array(DType::u8, grid);
  std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), uint8_t{1});
  rollout->grid().version = Array(DType::i64, grid);
  return rollout;
}

SuperBatch batch_of(const RolloutPtr& rollout, uint64_t index) {
  std::vector<int32_t> columns(kColumns);
  std::iota(columns.begin(), columns.end(), 0);
  return {.index = index, .samples = rollout->samples, .parts = {{rollout, columns}}};
}

// Trainer, prefetcher and publisher of a run, with the main thread in the place of a replay buffer that is never empty.
class Training {
 public:
  Training(const RunContextPtr& context, const std::vector<RolloutPtr>& rollouts)
      : system_(false), self_(system_.get()), rollouts_(rollouts) {
    caf::actor_system& system = system_.get();
    const auto me = caf::actor_cast<caf::strong_actor_ptr>(self_->address());
    const auto replay = caf::actor_cast<ReplayActor>(me);
    const std::shared_ptr<Learner> learner = learner_of(*context);
    const auto prefetch = system_.stop_at_end(spawn_on(system, true, prefetcher, context, learner->stager(), replay));
    const TrainerPeers peers{prefetch,
                             replay,
                             system_.stop_at_end(system.spawn(publisher, PublisherDependencies{.context = context})),
                             system_.stop_at_end(system.spawn(silent_recorder)),
                             system_.stop_at_end(system.spawn(silent_evaluator)),
                             caf::actor_cast<StatsActor>(me),
                             caf::actor_cast<decltype(TrainerPeers::supervisor)>(me)};
    const auto train = system_.stop_at_end(spawn_on(system, true, trainer, context, learner, ReplayStart{}, peers));
    self_->send(train, begin_atom_v);
    while (!asker_) receive();
  }

  struct Slice {
    std::vector<double> update_seconds;
    double wait_seconds = 0;  // in total
  };

  // Trains for `seconds`; then the trainer waits. The first update is not counted, because its waiting time includes
  // the pause since the last slice.
  Slice run(double seconds) {
    slice_ = {};
    first_ = true;
    const auto start = BenchClock::now();
    do {
      if (asker_) feed();
      receive();
    } while (slice_.update_seconds.empty() || seconds_since(start) < seconds);
    while (trained_ < fed_) receive();
    return slice_;
  }

 private:
  void feed() {
    const SuperBatch batch = batch_of(rollouts_[fed_ % rollouts_.size()], fed_);
    self_->send(caf::actor_cast<PrefetcherActor>(std::exchange(asker_, nullptr)),
                BatchMessage{{std::make_shared<const SuperBatch>(batch)}});
    ++fed_;
  }

  void receive() {
    std::string error;
    self_->receive([&](next_atom) { asker_ = self_->current_sender(); },
                   [&](const UpdateMessage& update) {
                     ++trained_;
                     if (std::exchange(first_, false)) return;
                     slice_.update_seconds.push_back(update.update_seconds);
                     slice_.wait_seconds += update.wait_seconds;
                   },
                   [&](const TrainingEnded& ended) { error = ended.reason + " " + ended.error; },
                   caf::after(kBenchPatience) >> [] { give_up("message from the trainer"); });
    if (!error.empty()) throw std::runtime_error("the trainer ended: " + error);
  }

  BenchSystem system_;
  caf::scoped_actor self_;
  std::vector<RolloutPtr> rollouts_;
  caf::strong_actor_ptr asker_;  // the prefetcher, while it waits for a batch
  uint64_t fed_ = 0, trained_ = 0;
  bool first_ = false;
  Slice slice_;
};

// Updates with the same batches, staged before, one after the other on this thread.
class BareTrainer {
 public:
  BareTrainer(const RunContext& context, const std::vector<RolloutPtr>& rollouts) : learner_(learner_of(context)) {
    for (size_t i = 0; i < rollouts.size(); ++i) staged_.push_back(learner_->stager()->stage(batch_of(rollouts[i], i)));
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
  for (size_t i = 0; i < kBatches; ++i) rollouts.push_back(filled_rollout(*policy, i));
  BareTrainer bare(*context, rollouts);
  Training training(context, rollouts);
  bare.run(0.05);
  training.run(0.05);

  constexpr double kShortestTurn = 0.2;
  const double turn = std::max(kShortestTurn, seconds / 20);
  std::vector<double> ratios, bare_seconds, update_seconds;
  double waited = 0, trained = 0;
  do {
    const double plain = median(bare.run(turn / 2));
    const Training::Slice slice = training.run(turn / 2);
    bare_seconds.push_back(plain);
    update_seconds.push_back(median(slice.update_seconds));
    ratios.push_back(update_seconds.back() / plain);
    waited += slice.wait_seconds;
    trained += std::accumulate(slice.update_seconds.begin(), slice.update_seconds.end(), 0.0);
  } while (seconds_since(start) + turn < seconds);

  const double wait_fraction = waited / (waited + trained);
  const nlohmann::ordered_json json{{"samples_per_update", kSteps * kColumns},
                                    {"epochs", context->config.trainer.epochs},
                                    {"minibatches", context->config.trainer.minibatches},
                                    {"turns", ratios.size()},
                                    {"ratio_to_bare_loop", median(ratios)},
                                    {"wait_fraction", wait_fraction},
                                    {"update_ms", 1e3 * median(update_seconds)},
                                    {"bare_update_ms", 1e3 * median(bare_seconds)}};
  return {
      json.dump(),
      {"updates of " + format_count(kSteps * kColumns) + " samples, " + std::to_string(context->config.trainer.epochs) +
           " epochs of " + std::to_string(context->config.trainer.minibatches) + " minibatches; medians of " +
           std::to_string(ratios.size()) + " turns",
       "bare loop  " + format_number(1e3 * median(bare_seconds), 2) + " ms per update",
       "trainer    " + format_number(1e3 * median(update_seconds), 2) + " ms per update, " +
           format_number(median(ratios), 3) + " of the bare loop",
       "waiting    " + format_number(100 * wait_fraction, 2) + " % of the trainer's time"}};
}

}  // namespace troupe
