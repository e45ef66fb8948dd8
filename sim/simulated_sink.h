#pragma once
// What RunReport does in a real run, on a disk in memory. One thread.

#include <cstdint>
#include <string>

#include "actors/recorder.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/checkpoint.h"
#include "runtime/stats/snapshot.h"
#include "sim/checker.h"

namespace troupe::sim {

class SimulatedSink final : public RunSink {
 public:
  SimulatedSink(World& world, Checker& checker, MemoryDisk& disk)
      : world_(world), checker_(checker), store_(disk, "run/checkpoints") {}
  void save(const Checkpoint& checkpoint) override {
    if (world_.scenario.mutation == Mutation::checkpoint_missing) return;
    store_.save(checkpoint);
    store_.prune(static_cast<uint64_t>(world_.scenario.config.checkpoint.keep), checkpoint.updates);
  }
  void record(const StatsSnapshot& snapshot) override {
    if (snapshot.env_steps < recorded_)
      world_.violate("a point at " + std::to_string(snapshot.env_steps) + " steps comes after one at " +
                     std::to_string(recorded_));
    recorded_ = snapshot.env_steps;
    look_at(snapshot);
  }
  void show(const StatsSnapshot& snapshot) override { look_at(snapshot); }
  CheckpointStore& store() { return store_; }
  const StatsSnapshot& last() const { return last_; }

 private:
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
  CheckpointStore store_;
  StatsSnapshot last_;
  uint64_t recorded_ = 0;
};

}  // namespace troupe::sim
