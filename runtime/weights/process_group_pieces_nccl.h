#pragma once
// NcclPieces: the broadcasts and exchanges of an NCCL group, cut into pieces that fit into a slot of its session, and
// how far they have come. Pieces are launched one after the other, in the order in which they were added. Used from one
// thread at a time. Only for runtime/weights/process_group_*.
//
// Piece k of an exchange has the k-th part of each of its sends and receives. How large a part is depends on the size
// of the group alone, so that both ends cut alike.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "runtime/weights/process_group.h"
#include "runtime/weights/process_group_session_nccl.h"

namespace troupe {

class NcclPieces {
 public:
  // Of rank `rank` of `size`.
  NcclPieces(int rank, int size) : rank_(rank), size_(size), done_with_(static_cast<size_t>(size)) {}

  // The result is the number of the piece after the last one, counted over the life of the group.
  uint64_t add_broadcast(const Buffer& buffer, int root);
  uint64_t add_exchange(std::span<const PeerBuffer> parts);
  // Takes the pieces as far as they come without waiting, and returns how many are done. The device of the session must
  // be that of the thread. Throws TransferError.
  uint64_t advance(NcclSession& session);
  uint64_t done() const { return done_; }
  // How many pieces were done that the other rank has as well.
  uint64_t done_with(int other) const { return done_with_[static_cast<size_t>(other)]; }
  bool empty() const { return pieces_.empty(); }
  // The ranks without which the first piece does not end; all others when there is none.
  std::vector<int> awaited() const;
  // Those that are not done never will be.
  void clear();

 private:
  struct Piece {
    enum class Stage : uint8_t {
      queued,
      launching,  // NCCL is busy with the call
      running,
      copying,  // to device memory of the caller
    };
    bool is_broadcast = false;
    std::vector<NcclSession::Part> parts;  // of a broadcast: one
    Stage stage = Stage::queued;
    NcclSession::Slot* slot = nullptr;
  };

  size_t part_bytes() const;
  Piece exchange_piece(std::span<const PeerBuffer> parts, size_t at) const;
  static bool launch(NcclSession& session, Piece& piece);
  static bool is_done(NcclSession& session, Piece& piece);

  int rank_, size_;
  std::deque<Piece> pieces_;  // in order; not done yet
  size_t launched_ = 0;       // the first of them
  uint64_t begun_ = 0;        // pieces of all operations so far
  uint64_t done_ = 0;         // of them
  std::vector<uint64_t> done_with_;
};

}  // namespace troupe
