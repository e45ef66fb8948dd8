#pragma once
// BenchTraining: trainer, prefetcher and publisher of a run, with the main thread in the place of a replay buffer that
// is never empty. The trainer may have other ranks, in processes that join it as `troupe rank` does. Main thread only.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/scoped_actor.hpp>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "tools/bench/child_process.h"
#include "tools/bench/relay.h"
#include "tools/bench/support.h"

namespace troupe {

// The other ranks of a run with trainer.ranks above 1.
struct BenchRanks {
  // Starts the process of a rank; `--connect HOST:PORT` with the address of the run follows.
  std::vector<std::string> command = {};
  // If not 0: the connection of each rank lets so many bytes a second through in each direction.
  double link_bytes_per_second = 0;
};

class BenchTraining {
 public:
  // The rollouts of one super-batch, one for each shard. All columns of each are used.
  using Batch = std::vector<RolloutPtr>;
  // The updates use `batches` in turns. Waits until all ranks have joined. Throws std::runtime_error when they do not.
  BenchTraining(RunContextPtr context, const std::shared_ptr<Learner>& learner, std::vector<Batch> batches,
                const BenchRanks& ranks = {});
  ~BenchTraining();

  struct Slice {
    // Of each update, and the part of them that is UpdateStages::exchange.
    std::vector<double> update_seconds, exchange_seconds;
    double wait_seconds = 0;  // of the trainer, in total
    LinkBytes bytes;          // through the links of the ranks, if they have any
  };

  // Trains for `seconds` and at least one update; then the trainer waits. One more update before them is not counted,
  // because its waiting time includes the pause since the last slice. Throws std::runtime_error when the trainer or a
  // rank ends.
  Slice run(double seconds);
  // Trains so many updates; then the trainer waits. Throws as run().
  void run_updates(uint64_t updates);

 private:
  void start_ranks(const BenchRanks& ranks);
  void feed();
  void receive();
  LinkBytes bytes_so_far() const;

  RunContextPtr context_;
  BenchSystem system_;
  caf::scoped_actor self_;
  std::vector<Batch> batches_;
  TrainerActor trainer_;
  caf::strong_actor_ptr asker_;  // the prefetcher, while it waits for a batch
  uint64_t fed_ = 0, trained_ = 0;
  bool first_ = false;
  Slice slice_;
  // Last, so that they end first.
  std::vector<std::unique_ptr<Relay>> relays_;
  std::vector<std::unique_ptr<BenchProcess>> processes_;
};

}  // namespace troupe
