#include "runtime/weights/process_group.h"

#include "runtime/base/blocked.h"
#include "runtime/base/deadline.h"

namespace troupe {

void ProcessGroup::broadcast(Buffer buffer, int root, std::chrono::milliseconds timeout) {
  const std::unique_ptr<Transfer> transfer = start_broadcast(buffer, root);
  const Blocked blocked;
  transfer->wait(timeout);
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
