#pragma once
// BestCheckpoints: which checkpoints of a run have the best evaluations. The ranking is the file best.json of the run
// folder, best first, written before a checkpoint that it no longer names is removed: so it never names one that is
// gone. It is there from the start of a run with a ranking.
//   {"measure": "...", "checkpoints": [{"updates": 150, "return_mean": 481.2, "episodes": 100}], "unranked": [70]}
// `unranked`, absent where it would be empty: checkpoints that a ranking which was lost may have protected.
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

// The contents of the file.
struct Ranking {
  std::string measure;
  std::vector<CheckpointScore> scores;  // best first
  std::set<uint64_t> unranked;
  friend bool operator==(const Ranking&, const Ranking&) = default;
};

// Whether a run folder has the file.
bool has_ranking(const Disk& disk, const std::string& run);
// The ranking in a run folder, best first; empty without one. Throws IoError when the file cannot be used.
std::vector<CheckpointScore> read_ranking(const Disk& disk, const std::string& run);

class BestCheckpoints {
 public:
  BestCheckpoints(Disk& disk, std::string run) : disk_(&disk), run_(std::move(run)) {}

  // Before anything else: ranks at most `count` checkpoints from now on; 0 removes the ranking, after a
  // warning. Returns only count as
  // comparable where `measure` is the same. What the folder holds goes on, less checkpoints that are not in `saved`,
  // which a warning names. Where it is missing or cannot be used, the ranking begins anew, and those of `saved` that
  // are `not_newest`, so that only a ranking protects them, are kept from now on, with a warning.
  void begin(uint64_t count, const std::string& measure, const std::vector<uint64_t>& saved,
             const std::vector<uint64_t>& not_newest = {});

  // The checkpoint after `updates` is on disk. `awaited`: its evaluation will follow.
  void add(uint64_t updates, bool awaited);
  // The evaluation of the policy after score.updates has ended; a return that is not finite ranks nothing. Where the
  // checkpoint is not `saved` yet, the score waits for it.
  void rank(const CheckpointScore& score, bool saved);

  // Best first. Equal returns: the earlier one is the better.
  const std::vector<CheckpointScore>& ranking() const { return current_.scores; }
  // Checkpoints that must not be removed: the ranked ones, the unranked ones of the file, and those whose evaluation
  // will follow.
  std::set<uint64_t> kept() const;

 private:
  void remove_ranking();
  void take_up(Ranking before, const std::vector<uint64_t>& saved);
  void begin_anew(const std::string& problem, const std::vector<uint64_t>& not_newest);
  void insert(const CheckpointScore& score);
  void write();

  Disk* disk_;
  std::string run_;
  uint64_t count_ = 0;
  Ranking current_;
  std::optional<Ranking> written_;  // as the file has it
  std::set<uint64_t> awaited_;
  std::optional<CheckpointScore> waiting_;  // for its checkpoint
};

}  // namespace troupe
