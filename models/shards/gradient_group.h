#pragma once
// GradientGroup: the ranks of a run that add up their gradients over a process group, each a part of every piece. So no
// rank has to receive and send the gradients of all. Owned by a rank's trainer, whose thread says what is complete; a
// thread of its own exchanges it. The sums have the same bits as those of RankRounds.
//
// Of each piece every rank has a part of its own. It gets that part of the branches of all other ranks and adds them
// up. Then it sends the sum to all others, or, where each rank trains a slice of the parameters, keeps it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "models/shards/element_range.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/rank_round.h"
#include "models/shards/shard_sum.h"
#include "runtime/base/mutex.h"
#include "runtime/weights/process_group.h"

namespace troupe {

// How the gradients of a run are divided. The same for all of its ranks.
struct GradientDivision {
  std::vector<ShardRange> shards;  // that each rank computes, in order
  size_t elements = 0;             // of all gradients
  size_t each = 0;                 // elements of a piece (GradientPieces)
  bool slices = false;             // each rank trains a slice (ParameterSlices), and gets the gradients of that alone

  // The elements of the piece that a rank adds up; there may be none.
  ElementRange part(size_t piece, size_t rank) const;
};

// A piece of a round of an update. Updates have increasing numbers.
struct GradientPiece {
  uint64_t update = 0;
  RoundPiece at;
  friend bool operator==(const GradientPiece&, const GradientPiece&) = default;
};

class GradientGroup {
 public:
  struct Timeouts {
    std::chrono::milliseconds connect;   // for all ranks to join
    std::chrono::milliseconds transfer;  // from when this rank has said a piece until the others have
  };
  // Called from the thread of the group. `gradients` is of the piece, or of the part of it that is in this rank's
  // slice.
  using Deliver = std::function<void(const GradientPiece&, RoundResult)>;
  // Called from the thread of the group, at most once, and nothing is delivered after it: the update has to begin
  // again, with another group. Must not end the group itself.
  using Fail = std::function<void(const TransferError&)>;

  // Joins the group in the thread. rendezvous.size is the number of ranks of the division.
  GradientGroup(std::shared_ptr<GroupBackend> backend, const Rendezvous& rendezvous, GradientDivision division,
                Timeouts timeouts, Deliver deliver, Fail fail);
  // Leaves the group: the other ranks see a lost peer if they wait for this one. Neither function is called once it has
  // returned. Waits for no peer, but takes up to the timeout for connections if they are just being made.
  ~GradientGroup();
  GradientGroup(const GradientGroup&) = delete;
  GradientGroup& operator=(const GradientGroup&) = delete;

  // This rank's branches of a piece. In a round every rank says all pieces, in any order, and begins no other round
  // before it has the results of all of them. Ignored after a failure. Throws InvariantError when the branches are not
  // those of its shards, or the piece was said before.
  void say(const GradientPiece& piece, std::vector<GradientBranch> branches);

 private:
  class Exchange;

  struct Round {
    std::vector<std::vector<GradientBranch>> said;  // by piece; empty: not yet
  };
  using RoundKey = std::pair<uint64_t, uint64_t>;  // update and round

  void run(const std::stop_token& stop);
  void fail(const TransferError& error, const std::stop_token& stop);
  // Blocks until there is a round, or that piece of it. Throws TransferError when stopped.
  RoundKey next_round(const std::stop_token& stop);
  std::vector<GradientBranch> take(const RoundKey& round, size_t piece, const std::stop_token& stop);

  const std::shared_ptr<GroupBackend> backend_;
  const Rendezvous rendezvous_;
  const GradientDivision division_;
  const GradientPieces pieces_;
  const std::vector<ShardRange> branches_;  // that this rank has of each piece
  const Timeouts timeouts_;
  const Deliver deliver_;
  const Fail fail_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<RoundKey, Round> rounds_ TROUPE_GUARDED_BY(mutex_);
  bool failed_ TROUPE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // uses the members above
};

}  // namespace troupe
