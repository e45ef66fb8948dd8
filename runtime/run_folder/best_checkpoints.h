#pragma once
// BestCheckpoints: which checkpoints of a run have the best evaluations. The ranking is the file best.json of the run
// folder, best first, written before a checkpoint that it no longer names is removed: so it never names one that is
// gone.
//   {"measure": "...", "checkpoints": [{"updates": 150, "return_mean": 481.2, "episodes": 100}]}
// Used by the owner of the run folder, one thread at a time; others may read the file meanwhile.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"

namespace troupe {

// The evaluation of the policy that a checkpoint holds.
struct CheckpointScore {
  uint64_t updates = 0;
  double return_mean = 0;
  uint64_t episodes = 0;
  friend bool operator==(const CheckpointScore&, const CheckpointScore&) = default;
};

// The ranking in a run folder, best first; empty without one. Throws IoError when the file cannot be used.
std::vector<CheckpointScore> read_ranking(const Disk& disk, const std::string& run);

class BestCheckpoints {
 public:
  BestCheckpoints(Disk& disk, std::string run) : disk_(&disk), run_(std::move(run)) {}

  // Before anything else: ranks at most `count` checkpoints from now on; 0 removes the ranking, after a warning.
  // Returns only count as comparable where `measure` is the same. What the folder holds goes on, less checkpoints that
  // are not in `saved`; it begins anew, with a warning, when it cannot be used.
  void begin(uint64_t count, const std::string& measure, const std::vector<uint64_t>& saved);

  // The checkpoint after `updates` is on disk. `awaited`: its evaluation will follow.
  void add(uint64_t updates, bool awaited);
  // The evaluation of the policy after score.updates has ended; a return that is not finite ranks nothing. Where the
  // checkpoint is not `saved` yet, the score waits for it.
  void rank(const CheckpointScore& score, bool saved);

  // Best first. Equal returns: the earlier one is the better.
  const std::vector<CheckpointScore>& ranking() const { return ranking_; }
  // Checkpoints that must not be removed: the ranked ones, and those whose evaluation will follow.
  std::set<uint64_t> kept() const;

 private:
  void remove_ranking();
  void insert(const CheckpointScore& score);
  void write();

  Disk* disk_;
  std::string run_, measure_;
  uint64_t count_ = 0;
  std::vector<CheckpointScore> ranking_, written_;  // written_: as the file has it
  std::set<uint64_t> awaited_;
  std::optional<CheckpointScore> waiting_;  // for its checkpoint
};

}  // namespace troupe
