// Ranks are threads, or one thread that acts for each rank in turn. They pass copies through queues.

#include <condition_variable>
#include <deque>
#include <map>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/weights/process_group.h"

namespace troupe {

namespace {

using std::chrono::milliseconds;
using FailureKind = TransferError::Kind;
using Block = std::shared_ptr<const std::vector<std::byte>>;

std::string about(uint64_t generation, int rank) {
  return "group " + std::to_string(generation) + ": rank " + std::to_string(rank);
}

// What the members of one group share.
class Room {
 public:
  Room(uint64_t generation, int size)
      : generation_(generation),
        size_(static_cast<size_t>(size)),
        present_(size, 0),
        left_(size, 0),
        queues_(static_cast<size_t>(size) * size) {}

  size_t size() const { return size_; }

  void enter(int rank) {
    const MutexLock lock(mutex_);
    TROUPE_CHECK(!present_[rank], "rank", rank, "joined group", generation_, "twice");
    present_[rank] = 1;
  }

  void leave(int rank) {
    const MutexLock lock(mutex_);
    left_[rank] = 1;
    changed_.notify_all();
  }

  void put(int from, int to, Block block) {
    const MutexLock lock(mutex_);
    if (left_[to]) throw TransferError(FailureKind::peer_lost, {to}, about(generation_, to) + " has left");
    queue(from, to).push_back(std::move(block));
    changed_.notify_all();
  }

  Block take(int from, int to, milliseconds timeout, const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    auto& blocks = queue(from, to);
    changed_.wait_for(mutex_, stop, timeout, [&]() TROUPE_REQUIRES(mutex_) { return !blocks.empty() || left_[from]; });
    if (stop.stop_requested()) throw TransferError(FailureKind::stopped, {}, "the group was stopped");
    if (!blocks.empty()) {
      Block block = std::move(blocks.front());
      blocks.pop_front();
      return block;
    }
    if (left_[from]) throw TransferError(FailureKind::peer_lost, {from}, about(generation_, from) + " has left");
    throw TransferError(FailureKind::timeout, {from},
                        about(generation_, from) + " sent nothing within " + std::to_string(timeout.count()) + " ms");
  }

 private:
  std::deque<Block>& queue(int from, int to) TROUPE_REQUIRES(mutex_) {
    return queues_[static_cast<size_t>(from) * size() + to];
  }

  const uint64_t generation_;
  const size_t size_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<char> present_ TROUPE_GUARDED_BY(mutex_), left_ TROUPE_GUARDED_BY(mutex_);
  std::vector<std::deque<Block>> queues_ TROUPE_GUARDED_BY(mutex_);
};

class Done : public Transfer {
 public:
  void wait(milliseconds) override {}
};

class InProcessGroup : public ProcessGroup {
 public:
  InProcessGroup(std::shared_ptr<Room> room, int rank, std::stop_token stop)
      : ProcessGroup(rank, static_cast<int>(room->size())), room_(std::move(room)), stop_(std::move(stop)) {
    room_->enter(rank);
  }
  ~InProcessGroup() override { room_->leave(rank()); }

  bool survives_timeout() const override { return true; }

  std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) override {
    TROUPE_CHECK(buffer.device == Device::host && root >= 0 && root < size(), "root", root, "of", size());
    if (rank() != root) return std::make_unique<Incoming>(*this, buffer, root);
    check_stop();
    const auto* bytes = static_cast<const std::byte*>(buffer.data);
    const Block block = std::make_shared<std::vector<std::byte>>(bytes, bytes + buffer.bytes);
    for (int to = 0; to < size(); ++to)
      if (to != root) room_->put(root, to, block);
    return std::make_unique<Done>();
  }

  std::unique_ptr<Transfer> start_exchange(std::span<const PeerBuffer> parts) override {
    check_parts(parts);
    check_stop();
    std::vector<PeerBuffer> receives;
    for (const PeerBuffer& part : parts) {
      TROUPE_CHECK(part.buffer.device == Device::host, part.peer);
      const auto* bytes = static_cast<const std::byte*>(part.buffer.data);
      if (part.direction == PeerBuffer::Direction::receive)
        receives.push_back(part);
      else
        room_->put(rank(), part.peer, std::make_shared<std::vector<std::byte>>(bytes, bytes + part.buffer.bytes));
    }
    return std::make_unique<Exchange>(*this, std::move(receives));
  }

  void gather(const void* mine, void* all, size_t bytes, int root, milliseconds timeout) override {
    check_stop();
    const auto* first = static_cast<const std::byte*>(mine);
    if (rank() != root) return room_->put(rank(), root, std::make_shared<std::vector<std::byte>>(first, first + bytes));
    std::vector<PeerBuffer> receives;
    for (int from = 0; from < size(); ++from) {
      auto* place = static_cast<std::byte*>(all) + static_cast<size_t>(from) * bytes;
      if (from == root)
        std::copy(first, first + bytes, place);
      else
        receives.push_back({PeerBuffer::Direction::receive, from, {place, bytes}});
    }
    take_all(receives, timeout);
  }

 private:
  class Incoming : public Transfer {
   public:
    Incoming(InProcessGroup& group, Buffer buffer, int root) : group_(group), buffer_(buffer), root_(root) {}
    void wait(milliseconds timeout) override { group_.take_into(buffer_, root_, timeout); }

   private:
    InProcessGroup& group_;
    Buffer buffer_;
    int root_;
  };

  class Exchange : public Transfer {
   public:
    Exchange(InProcessGroup& group, std::vector<PeerBuffer> receives) : group_(group), receives_(std::move(receives)) {}
    void wait(milliseconds timeout) override { group_.take_all(receives_, timeout); }

   private:
    InProcessGroup& group_;
    std::vector<PeerBuffer> receives_;
  };

  // A timeout names every rank that is late.
  void take_all(const std::vector<PeerBuffer>& receives, milliseconds timeout) {
    const Deadline deadline(timeout);
    std::vector<int> late;
    for (const PeerBuffer& each : receives) {
      try {
        take_into(each.buffer, each.peer, deadline.left());
      } catch (const TransferError& error) {
        if (error.kind() != FailureKind::timeout) throw;
        late.push_back(each.peer);
      }
    }
    if (!late.empty())
      throw missing_ranks(FailureKind::timeout, late, "nothing within " + std::to_string(timeout.count()) + " ms");
  }

  void take_into(Buffer buffer, int from, milliseconds timeout) {
    const Block block = room_->take(from, rank(), timeout, stop_);
    if (block->size() != buffer.bytes)
      throw TransferError(FailureKind::protocol, {from},
                          "rank " + std::to_string(from) + " sent " + std::to_string(block->size()) + " bytes where " +
                              std::to_string(buffer.bytes) + " were due");
    std::copy(block->begin(), block->end(), static_cast<std::byte*>(buffer.data));
  }

  void check_stop() const {
    if (stop_.stop_requested()) throw TransferError(FailureKind::stopped, {}, "the group was stopped");
  }

  std::shared_ptr<Room> room_;
  std::stop_token stop_;
};

class InProcessBackend : public GroupBackend {
 public:
  std::string_view name() const override { return "in_process"; }
  Rendezvous host() override { return {.host = "in_process"}; }

  std::unique_ptr<ProcessGroup> join(const Rendezvous& r, milliseconds, std::stop_token stop) override {
    check_rendezvous(r);
    return std::make_unique<InProcessGroup>(room_of(r), r.rank, std::move(stop));
  }

 private:
  // A room is kept until a later generation begins, also after its members have left: a member that joins late must
  // find out that the others are gone.
  std::shared_ptr<Room> room_of(const Rendezvous& r) {
    const MutexLock lock(mutex_);
    std::erase_if(rooms_,
                  [&](const auto& entry) { return entry.first < r.generation && entry.second.use_count() == 1; });
    std::shared_ptr<Room>& room = rooms_[r.generation];
    if (!room) room = std::make_shared<Room>(r.generation, r.size);
    TROUPE_CHECK(room->size() == static_cast<size_t>(r.size), "group", r.generation, "has size", room->size(), "not",
                 r.size);
    return room;
  }

  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Room>> rooms_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<GroupBackend> make_in_process_backend() { return std::make_shared<InProcessBackend>(); }

}  // namespace troupe
