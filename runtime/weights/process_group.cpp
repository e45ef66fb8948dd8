#include "runtime/weights/process_group.h"

#include <algorithm>

#include "runtime/base/blocked.h"
#include "runtime/base/deadline.h"

namespace troupe {

void ProcessGroup::broadcast(Buffer buffer, int root, std::chrono::milliseconds timeout) {
  const std::unique_ptr<Transfer> transfer = start_broadcast(buffer, root);
  const Blocked blocked;
  transfer->wait(timeout);
}

std::unique_ptr<Transfer> ProcessGroup::start_send(Buffer buffer, int to) {
  const PeerBuffer part{PeerBuffer::Direction::send, to, buffer};
  return start_exchange({&part, 1});
}

std::unique_ptr<Transfer> ProcessGroup::start_receive(Buffer buffer, int from) {
  const PeerBuffer part{PeerBuffer::Direction::receive, from, buffer};
  return start_exchange({&part, 1});
}

void ProcessGroup::check_parts(std::span<const PeerBuffer> parts) const {
  for (const PeerBuffer& part : parts) {
    TROUPE_CHECK(part.peer >= 0 && part.peer < size_ && part.peer != rank_, "rank", part.peer, "of", size_, "at",
                 rank_);
    TROUPE_CHECK(std::ranges::count_if(parts,
                                       [&](const PeerBuffer& other) {
                                         return other.peer == part.peer && other.direction == part.direction;
                                       }) == 1,
                 "two parts with rank", part.peer);
  }
}

void ProcessGroup::barrier(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  std::byte here{1};
  std::vector<std::byte> all(static_cast<size_t>(size_));
  gather(&here, all.data(), 1, 0, timeout);
  broadcast({&here, 1}, 0, deadline.left());
}

void check_rendezvous(const Rendezvous& r) {
  TROUPE_CHECK(r.size >= 1 && r.rank >= 0 && r.rank < r.size, "rank", r.rank, "size", r.size);
}

TransferError missing_ranks(TransferError::Kind kind, std::vector<int> ranks, const std::string& what) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  return {kind, std::move(ranks), text + ": " + what};
}

}  // namespace troupe
