#pragma once
// Does what RunReport does in a real run, on a disk in memory. One thread.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/recorder.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/best_checkpoints.h"
#include "runtime/run_folder/checkpoint.h"
#include "runtime/stats/snapshot.h"
#include "sim/checker.h"

namespace troupe::sim {

class SimulatedSink final : public RunSink {
 public:
  // `disk_fault`: whether the disk has refused a write.
  SimulatedSink(World& world, Checker& checker, MemoryDisk& disk, const bool& disk_fault)
      : world_(world),
        checker_(checker),
        disk_fault_(disk_fault),
        store_(disk, "run/checkpoints"),
        best_(disk, "run") {}
  void begin() {
    best_.begin({static_cast<uint64_t>(config().checkpoint.keep_best), "", 0},
                {store_.list(), {}, [this](uint64_t step) { return store_.check(step); }});
  }
  void save(const Checkpoint& checkpoint) override {
    if (world_.scenario.mutation == Mutation::checkpoint_missing) return;
    const std::string weights = store_.save(checkpoint);
    const auto every = static_cast<uint64_t>(config().evaluation.every_updates);
    best_.add(checkpoint.updates, every > 0 && checkpoint.updates % every == 0, weights);
    newest_ = checkpoint.updates;
    prune();
  }
  void evaluated(const Evaluation& evaluation) override {
    const std::vector<uint64_t> saved = store_.list();
    const bool there = std::ranges::find(saved, evaluation.version.number) != saved.end();
    const double score = evaluation.error.empty() ? evaluation.return_mean : kUnknown;
    best_.rank({evaluation.version.number, score, evaluation.ended()},
               there ? std::optional(store_.weights_checksum(evaluation.version.number)) : std::nullopt);
    prune();
    if (there) check_best(score);
  }
  void record(const StatsSnapshot& snapshot) override {
    if (snapshot.env_steps < recorded_)
      world_.violate("a point at " + std::to_string(snapshot.env_steps) + " steps comes after one at " +
                     std::to_string(recorded_));
    recorded_ = snapshot.env_steps;
    look_at(snapshot);
  }
  void record_warmup(const StatsSnapshot& snapshot) override {
    if (snapshot.warmup->step <= warmup_step_)
      world_.violate("the point of step " + std::to_string(snapshot.warmup->step) +
                     " of the warm-up comes after that of step " + std::to_string(warmup_step_));
    warmup_step_ = snapshot.warmup->step;
    look_at(snapshot);
  }
  void show(const StatsSnapshot& snapshot) override { look_at(snapshot); }
  CheckpointStore& store() { return store_; }
  const StatsSnapshot& last() const { return last_; }

 private:
  const RunConfig& config() const { return world_.scenario.config; }
  void prune() {
    const bool forgets = world_.scenario.mutation == Mutation::best_removed;
    if (newest_)
      store_.prune(static_cast<uint64_t>(config().checkpoint.keep), *newest_,
                   forgets ? std::set<uint64_t>{} : best_.kept());
  }
  // Checks that the best policy that was evaluated in this process and saved still has a checkpoint.
  void check_best(double score) {
    if (config().checkpoint.keep_best == 0 || !std::isfinite(score) || disk_fault_) return;
    highest_ = std::max(highest_, score);
    if (best_.ranking().front().return_mean < highest_) world_.violate("the best evaluation is not ranked first");
    for (const CheckpointScore& ranked : best_.ranking()) try {
        store_.load(ranked.updates);
      } catch (const IoError& gone) {
        world_.violate(std::string("a checkpoint with one of the best evaluations is gone: ") + gone.what());
      }
  }
  void look_at(const StatsSnapshot& snapshot) {
    if (!snapshot.ledger.balances()) world_.violate("a reported ledger does not balance: " + snapshot.ledger.text());
    if (snapshot.lag_max > static_cast<double>(world_.scenario.config.replay.max_policy_lag))
      world_.violate("a lag of " + std::to_string(snapshot.lag_max) + " is reported");
    // Every step of a fake environment is one sample.
    if (snapshot.env_steps != snapshot.ledger.produced)
      world_.violate("a report of " + std::to_string(snapshot.env_steps) + " steps has " + snapshot.ledger.text());
    checker_.check_return(snapshot);
    last_ = snapshot;
  }

  World& world_;
  Checker& checker_;
  const bool& disk_fault_;
  CheckpointStore store_;
  BestCheckpoints best_;
  std::optional<uint64_t> newest_;  // newest checkpoint of this process
  double highest_ = -std::numeric_limits<double>::infinity();
  StatsSnapshot last_;
  uint64_t recorded_ = 0, warmup_step_ = 0;
};

}  // namespace troupe::sim
