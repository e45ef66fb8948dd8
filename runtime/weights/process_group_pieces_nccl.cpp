#include "runtime/weights/process_group_pieces_nccl.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

using Part = NcclSession::Part;
using Use = NcclSession::Use;

Use use_of(const Buffer& buffer, bool sends) {
  if (sends) return buffer.device == Device::cuda ? Use::send_from_device : Use::send_from_host;
  return buffer.device == Device::cuda ? Use::receive_on_device : Use::receive_on_host;
}

}  // namespace

uint64_t NcclPieces::add_broadcast(const Buffer& buffer, int root) {
  const Use use = use_of(buffer, rank_ == root);
  auto* memory = static_cast<std::byte*>(buffer.data);
  for (size_t at = 0; at < buffer.bytes; at += NcclSession::kPieceBytes, ++begun_) {
    const size_t bytes = std::min(NcclSession::kPieceBytes, buffer.bytes - at);
    pieces_.push_back({true, {{use, root, memory + at, bytes}}});
  }
  return begun_;
}

uint64_t NcclPieces::add_exchange(std::span<const PeerBuffer> parts) {
  size_t largest = 0;
  for (const PeerBuffer& part : parts) largest = std::max(largest, part.buffer.bytes);
  if (largest > 0)
    for (size_t at = 0; at < largest; at += part_bytes(), ++begun_) pieces_.push_back(exchange_piece(parts, at));
  return begun_;
}

// Of each send and receive in a piece: all of them fit into a slot, and are aligned for copies.
size_t NcclPieces::part_bytes() const {
  constexpr size_t kAlignment = 256;
  const size_t most = 2 * static_cast<size_t>(size_ - 1);
  const size_t bytes = NcclSession::kPieceBytes / most / kAlignment * kAlignment;
  TROUPE_CHECK(bytes > 0, size_);
  return bytes;
}

// The bytes from `at` on.
NcclPieces::Piece NcclPieces::exchange_piece(std::span<const PeerBuffer> parts, size_t at) const {
  Piece piece;
  for (const PeerBuffer& part : parts) {
    if (part.buffer.bytes <= at) continue;
    const Use use = use_of(part.buffer, part.direction == PeerBuffer::Direction::send);
    const size_t bytes = std::min(part_bytes(), part.buffer.bytes - at);
    piece.parts.push_back(
        {use, part.peer, static_cast<std::byte*>(part.buffer.data) + at, bytes, piece.parts.size() * part_bytes()});
  }
  return piece;
}

uint64_t NcclPieces::advance(NcclSession& session) {
  while (!pieces_.empty() && is_done(session, pieces_.front())) {
    for (const int other : awaited()) ++done_with_[static_cast<size_t>(other)];
    pieces_.pop_front();
    ++done_;
    if (launched_ > 0) --launched_;
  }
  while (session.idle()) {
    if (launched_ > 0 && pieces_[launched_ - 1].stage == Piece::Stage::launching) {
      Piece& busy = pieces_[launched_ - 1];
      session.finish_launch(*busy.slot, busy.parts);
      busy.stage = Piece::Stage::running;
    }
    if (launched_ == pieces_.size() || !launch(session, pieces_[launched_])) break;
    ++launched_;
  }
  return done_;
}

// False when there is no slot.
bool NcclPieces::launch(NcclSession& session, Piece& piece) {
  piece.slot = session.take_slot();
  if (!piece.slot) return false;
  for (const Part& part : piece.parts)
    if (part.use == Use::send_from_host) std::memcpy(piece.slot->host + part.offset, part.memory, part.bytes);
  if (piece.is_broadcast)
    session.broadcast(*piece.slot, piece.parts.front());
  else
    session.exchange(*piece.slot, piece.parts);
  piece.stage = Piece::Stage::launching;
  return true;
}

bool NcclPieces::is_done(NcclSession& session, Piece& piece) {
  if (piece.stage == Piece::Stage::queued || piece.stage == Piece::Stage::launching) return false;
  if (!session.has_ended(*piece.slot)) return false;
  const bool on_device = std::ranges::find(piece.parts, Use::receive_on_device, &Part::use) != piece.parts.end();
  if (on_device && piece.stage == Piece::Stage::running) {
    session.copy_out(*piece.slot, piece.parts);
    piece.stage = Piece::Stage::copying;
    return false;
  }
  for (const Part& part : piece.parts)
    if (part.use == Use::receive_on_host) std::memcpy(part.memory, piece.slot->host + part.offset, part.bytes);
  session.give_back(*piece.slot);
  return true;
}

std::vector<int> NcclPieces::awaited() const {
  const bool all = pieces_.empty() || pieces_.front().is_broadcast;
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other)
    if (other != rank_ &&
        (all || std::ranges::find(pieces_.front().parts, other, &Part::peer) != pieces_.front().parts.end()))
      ranks.push_back(other);
  return ranks;
}

void NcclPieces::clear() {
  pieces_.clear();
  launched_ = 0;
}

}  // namespace troupe
