// `troupe bench replay`: the time of a draw from a full buffer over the number of its samples, and the time of a credit
// over the number of workers. Both should stay the same.

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/replay_store.h"
#include "runtime/base/text_format.h"
#include "tools/bench/bench.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

constexpr uint64_t kSuperBatch = 2048;
constexpr int64_t kSteps = 64, kColumns = 16;  // of a rollout in the measurement of draws

RolloutPtr rollout_of(uint64_t worker, int64_t steps, int64_t columns, PolicyVersion version) {
  auto rollout = std::make_shared<Rollout>();
  const Shape grid{steps, columns};
  rollout->worker = worker;
  rollout->epoch = version.epoch;
  rollout->oldest = rollout->newest = version.number;
  rollout->grid().values = Array(DType::f32, grid);
  rollout->grid().valid = Array(DType::u8, grid);
  rollout->grid().version = Array(DType::i64, grid);
  std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), uint8_t{1});
  std::ranges::fill(rollout->grid().version.mutable_view<int64_t>(), static_cast<int64_t>(version.number));
  rollout->samples = rollout->env_steps = static_cast<uint64_t>(steps * columns);
  return rollout;
}

// Microseconds of a draw with its update, from a buffer of `samples` that is kept full.
double draw_us(uint64_t samples, double seconds) {
  constexpr uint64_t kMaxReuse = 4;
  ReplayStore store({.super_batch = kSuperBatch,
                     .capacity = samples,
                     .max_policy_lag = 1'000'000'000,
                     .max_reuse = kMaxReuse,
                     .reuse = true,
                     .unit = UnitKind::sample},
                    {}, 1);
  store.join(1, 1, kSteps * kColumns);
  const RolloutPtr rollout = rollout_of(1, kSteps, kColumns, {});
  while (store.stored_units() + rollout->samples <= samples) store.push(rollout);
  std::vector<double> times;
  uint64_t uses = 0;
  const auto draw = [&] {
    const auto batch = store.sample();
    store.trained(batch->index);
    for (uses += batch->samples; uses >= rollout->samples * kMaxReuse; uses -= rollout->samples * kMaxReuse)
      store.push(rollout);
  };
  for (uint64_t i = 0; i < 2 * kMaxReuse; ++i) draw();
  const auto start = BenchClock::now();
  do times.push_back(1e6 * seconds_of(draw));
  while (seconds_since(start) < seconds);
  return median(times);
}

// Microseconds of a credit and the rollout that is made with it, with so many workers.
double credit_us(uint64_t workers, double seconds) {
  constexpr int64_t kRolloutSteps = 16;
  RunConfig config;
  config.trainer.super_batch = kSuperBatch;
  config.replay.max_policy_lag = static_cast<int64_t>(2 + workers * kRolloutSteps / kSuperBatch);
  ReplayStore store(replay_rules(config), {}, 1);
  for (uint64_t worker = 0; worker < workers; ++worker) store.join(worker, 1, kRolloutSteps);
  std::vector<uint64_t> granted;  // the worker of each credit that is not used yet
  const auto grant = [&] {
    for (const CreditGrant& grant : store.grant()) granted.insert(granted.end(), grant.count, grant.worker);
  };
  std::vector<double> times;
  uint64_t credits = 0;
  double busy = 0;
  const auto start = BenchClock::now();
  do {
    const PolicyVersion version = store.version();
    store.applied(0, version);
    grant();
    const RolloutPtr made = rollout_of(0, kRolloutSteps, 1, version);
    std::vector<RolloutPtr> rollouts;
    for (const uint64_t worker : std::exchange(granted, {})) {
      auto rollout = std::make_shared<Rollout>(*made);
      rollout->worker = worker;
      rollouts.push_back(std::move(rollout));
    }
    busy += seconds_of([&] {
      for (RolloutPtr& rollout : rollouts) {
        store.push(std::move(rollout));
        grant();  // as after every message
      }
    });
    credits += rollouts.size();
    while (const auto batch = store.sample()) store.trained(batch->index);
    if (credits < kSuperBatch / kRolloutSteps) continue;
    times.push_back(1e6 * std::exchange(busy, 0.0) / static_cast<double>(std::exchange(credits, 0)));
  } while (seconds_since(start) < seconds);
  return median(times);
}

}  // namespace

BenchReport bench_replay(double seconds) {
  constexpr uint64_t kSamples[] = {10'000, 100'000, 1'000'000, 10'000'000};
  constexpr uint64_t kWorkers[] = {1, 16, 256, 4096};
  const double turn = seconds / (std::size(kSamples) + std::size(kWorkers));
  nlohmann::ordered_json draws = nlohmann::ordered_json::array(), credits = draws;
  BenchReport report;
  report.lines = {"draws of " + format_count(kSuperBatch) + " single samples with their updates, replay.max_reuse 4"};
  for (const uint64_t samples : kSamples) {
    const double us = draw_us(samples, turn);
    draws.push_back({{"samples", samples}, {"us_per_draw", us}});
    report.lines.push_back("  " + format_count(samples) + " stored samples: " + format_figure(us, 0) + " us");
  }
  report.lines.emplace_back("credits with their rollouts of 16 samples");
  for (const uint64_t workers : kWorkers) {
    const double us = credit_us(workers, turn);
    credits.push_back({{"workers", workers}, {"us_per_credit", us}});
    report.lines.push_back("  " + format_counted(workers, "worker") + ": " + format_figure(us, 2) + " us");
  }
  report.json = nlohmann::ordered_json{{"super_batch", kSuperBatch}, {"draw", draws}, {"credit", credits}}.dump();
  return report;
}

}  // namespace troupe
