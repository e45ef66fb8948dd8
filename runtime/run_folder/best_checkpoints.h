#pragma once
// BestCheckpoints: which checkpoints of a run have the best evaluations. The ranking is the file best.json of the run
// folder, best first, written before a checkpoint that it no longer names is removed: so it never names one that is
// gone. It is there from the start of a run with a ranking.
//   {"measure": "...", "newest": {"updates": 200, "weights": "5f6e7d8c"}, "weights": {"150": "1a2b3c4d"},
//    "checkpoints": [{"updates": 150, "return_mean": 481.2, "episodes": 100}], "saved": {"190": "9c8b7a6d"},
//    "unranked": [70], "crc32c": "..."}
// `weights` holds the CRC of the weights of each ranked checkpoint, which tells it from that of another run. `newest`
// is the checkpoint that was saved last, null before the first. `saved` are those before it, with the CRC of their
// weights: the last few, and all whose evaluation will follow. Whoever wrote the file knew every checkpoint up to the
// last of all these that is still there: a file that knows none of the newest ones is an older copy or of another run.
// `unranked`, absent where it would be empty: checkpoints that a ranking which was lost may have protected. Used by the
// owner of the run folder, one thread at a time; others may read the file meanwhile.

#include <cstdint>
#include <functional>
#include <map>
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
  std::optional<std::pair<uint64_t, std::string>> newest;  // its updates, and the checksum of its weights
  std::vector<CheckpointScore> scores;                     // best first
  std::map<uint64_t, std::string> weights;                 // their checksums, by updates
  std::map<uint64_t, std::string> saved;                   // checksums of others that were saved, by updates
  std::set<uint64_t> unranked;
  friend bool operator==(const Ranking&, const Ranking&) = default;
};

// Whether a run folder has the file.
bool has_ranking(const Disk& disk, const std::string& run);
// The ranking in a run folder; empty without one. Throws IoError when the file cannot be used.
Ranking read_ranking(const Disk& disk, const std::string& run);

// How checkpoints are ranked from now on.
struct RankedBy {
  uint64_t count = 0;  // the best ones that are kept
  std::string measure;
  uint64_t episodes = 0;                   // of every evaluation; 0: of any number
  const char* measured_by = "env_params";  // setting of the section evaluation that `measure` holds
};

// The checkpoints that a start finds.
struct SavedCheckpoints {
  std::vector<uint64_t> all;
  std::vector<uint64_t> not_newest;                                  // those that only a ranking protects
  std::function<std::optional<std::string>(uint64_t)> weights = {};  // as CheckpointStore::check()
};

class BestCheckpoints {
 public:
  BestCheckpoints(Disk& disk, std::string run) : disk_(&disk), run_(std::move(run)) {}

  // Before anything else. Returns only count as comparable where `measure` and the number of episodes are the same:
  // other evaluations leave the ranking, and their checkpoints become unranked. Checkpoints that are missing, or have
  // other weights than were ranked, leave it too. Where the file is missing, damaged, an older copy or of another run,
  // those that are `not_newest`, and which it may not know, become unranked. A warning names them, and a damaged file
  // is renamed. With a `count` of 0 the file is not changed, and what it names stays protected. Throws IoError when the
  // system refuses to read.
  void begin(const RankedBy& by, const SavedCheckpoints& saved);

  // The checkpoint after `updates`, whose weights have that checksum, is on disk. `awaited`: its evaluation will
  // follow.
  void add(uint64_t updates, bool awaited, const std::string& weights);
  // The evaluation of a checkpoint that is on disk since an earlier start will follow.
  void await(uint64_t updates) {
    if (by_.count > 0) awaited_.insert(updates);
  }
  // The evaluation of the policy after score.updates has ended; a return that is not finite ranks nothing. `weights` is
  // the checksum of that checkpoint; without one the score waits for it. An unranked checkpoint is ranked like others.
  void rank(const CheckpointScore& score, const std::optional<std::string>& weights);

  // Best first. Equal returns: the earlier one is the better.
  const std::vector<CheckpointScore>& ranking() const { return current_.scores; }
  // Checkpoints that must not be removed: the ranked ones, the unranked ones of the file, and those whose evaluation
  // will follow.
  std::set<uint64_t> kept() const;

 private:
  void keep_ranked(const Ranking& before, const SavedCheckpoints& saved);
  void take_up(const Ranking& before, const SavedCheckpoints& saved);
  void protect_unknown(const Ranking& before, const SavedCheckpoints& saved);
  void begin_anew(const std::string& problem, const std::vector<uint64_t>& not_newest);
  bool is_comparable(const Ranking& before, const CheckpointScore& score) const;
  void insert(const CheckpointScore& score, const std::string& weights);
  void write();

  Disk* disk_;
  std::string run_;
  RankedBy by_;
  Ranking current_;
  std::optional<Ranking> written_;  // as the file has it
  std::set<uint64_t> awaited_;
  std::optional<CheckpointScore> waiting_;  // for its checkpoint
};

}  // namespace troupe
