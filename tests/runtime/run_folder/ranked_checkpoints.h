#pragma once
// Checkpoints that are ranked by their evaluations, on a disk in memory.

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/best_checkpoints.h"
#include "runtime/run_folder/run_folder.h"

namespace troupe::test {

using Updates = std::vector<uint64_t>;

inline Updates updates_of(const std::vector<CheckpointScore>& ranking) {
  Updates result;
  for (const CheckpointScore& score : ranking) result.push_back(score.updates);
  return result;
}

inline Checkpoint checkpoint_to_rank(uint64_t updates) {
  Checkpoint checkpoint;
  checkpoint.version = {0, updates};
  checkpoint.updates = updates;
  checkpoint.model = {{"w", Array::of<float>({1}, {static_cast<float>(updates)})}};
  return checkpoint;
}

// A run folder on a disk in memory; warnings go to a file in memory.
struct RankedCheckpoints {
  explicit RankedCheckpoints(uint64_t count = 1) {
    open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
    restart(count);
  }
  ~RankedCheckpoints() { close_log(); }
  void restart(uint64_t count, const std::string& measure = "", uint64_t keep = 1, uint64_t episodes = 5) {
    run.reset();
    disk.clear_fault();
    run.emplace(disk, "run", "{}");
    run->checkpoints().recover();
    run->keep_best({count, measure, episodes}, keep);
  }
  // Saves a checkpoint and ranks it by this score.
  void evaluate(uint64_t updates, double score, uint64_t keep = 1, uint64_t episodes = 5) {
    run->save_checkpoint(checkpoint_to_rank(updates), keep, /*evaluated_later=*/true);
    run->rank_checkpoint({updates, score, episodes});
  }
  Updates saved() { return run->checkpoints().list(); }
  Updates ranked() const { return updates_of(read_ranking(disk, "run").scores); }
  // Makes a run whose checkpoints 1 and 2 are ranked, and whose newest one is 3.
  void rank_two() {
    restart(2);
    evaluate(1, 9);
    evaluate(2, 7);
    evaluate(3, 1);
  }
  std::string log() const { return log_disk.read("log"); }
  bool logged(const std::string& text) const { return log().find(text) != std::string::npos; }

  MemoryDisk disk, log_disk;
  std::optional<RunFolder> run;
};

// A run that ranks two, with the checkpoints 1 to `last`, none of them evaluated yet.
inline void save_awaited(RankedCheckpoints& f, uint64_t last) {
  f.restart(2);
  for (uint64_t updates = 1; updates <= last; ++updates) f.run->save_checkpoint(checkpoint_to_rank(updates), 1, true);
}

}  // namespace troupe::test
