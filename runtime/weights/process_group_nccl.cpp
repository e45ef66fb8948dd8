// The communicator is non-blocking, so that every wait has a deadline and can be stopped: it asks NCCL for its state
// and CUDA for the event that ends the operation. A receiver that waits for a header waits at the store and not in a
// kernel, which would occupy the GPU until the next weights come.
//
// NCCL does not always notice that a peer has left: its kernel then waits for ever. So a member that leaves says so at
// the store, with the number of pieces that it has completed with each other rank, and the others look there while they
// wait.

#include "runtime/weights/process_group_nccl.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/weights/process_group_pieces_nccl.h"
#include "runtime/weights/process_group_session_nccl.h"
#include "runtime/weights/process_group_store.h"

namespace troupe {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Kind = TransferError::Kind;

constexpr size_t kLargestThroughStore = 4096;
constexpr milliseconds kLookAtStore{20};  // between two looks for members that have left

// The pauses of a wait that polls: short at first, for pieces take less than a millisecond.
class Pauses {
 public:
  explicit Pauses(const std::stop_token& stop) : stop_(stop) {}
  void next() {
    if (++turns_ <= kYields) return std::this_thread::yield();
    std::unique_lock lock(mutex_);
    never_.wait_for(lock, stop_, pause_, [] { return false; });
    pause_ = std::min(2 * pause_, kLongest);
  }

 private:
  static constexpr int kYields = 100;
  static constexpr microseconds kLongest{2000};
  const std::stop_token& stop_;
  int turns_ = 0;
  microseconds pause_{50};
  std::mutex mutex_;
  std::condition_variable_any never_;
};

class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(const Rendezvous& r, std::unique_ptr<GroupStore> store, std::stop_token stop)
      : ProcessGroup(r.rank, r.size),
        rendezvous_(r),
        store_(std::move(store)),
        stop_(std::move(stop)),
        pieces_(r.rank, r.size) {}
  ~NcclGroup() override {
    const bool healthy = is_healthy();
    leave();
    end_session(std::move(session_), healthy);
  }

  // Blocks until the communicator is connected.
  void connect(int device, const std::string& id, const Deadline& deadline) {
    session_ = std::make_unique<NcclSession>(device, rank(), size(), id);
    poll_until([this] { return session_->idle(); }, deadline, {}, "ncclCommInitRank: no connection in time");
  }

  std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) override {
    TROUPE_CHECK(root >= 0 && root < size(), "root", root, "of", size());
    const uint64_t turn = turn_++;
    if (buffer.device == Device::host && buffer.bytes <= kLargestThroughStore)
      return std::make_unique<ThroughStore>(*this, buffer, root, turn);
    require_usable();
    return begin(pieces_.add_broadcast(buffer, root), rank() == root ? std::vector<int>{} : std::vector<int>{root});
  }

  std::unique_ptr<Transfer> start_exchange(std::span<const PeerBuffer> parts) override {
    check_parts(parts);
    require_usable();
    std::set<int> peers;
    for (const PeerBuffer& part : parts) peers.insert(part.peer);
    return begin(pieces_.add_exchange(parts), {peers.begin(), peers.end()});
  }

  void gather(const void* mine, void* all, size_t bytes, int root, milliseconds timeout) override {
    TROUPE_CHECK(bytes <= kLargestThroughStore && root >= 0 && root < size(), bytes, "bytes to root", root, "of",
                 size());
    const Deadline deadline(timeout);
    const uint64_t turn = turn_++;
    if (rank() != root) return put(turn, {mine, bytes});
    auto* place = static_cast<std::byte*>(all);
    std::vector<int> late;
    for (int from = 0; from < size(); ++from) {
      const Buffer part{place + static_cast<size_t>(from) * bytes, bytes};
      if (from == root)
        std::memcpy(part.data, mine, bytes);
      else if (!take(turn, from, part, deadline))
        late.push_back(from);
    }
    if (!late.empty())
      throw missing_ranks(Kind::timeout, late, "no answer within " + std::to_string(timeout.count()) + " ms");
    forget_turns(turn);
  }

 private:
  struct ConstBytes {
    const void* data;
    size_t size;
  };

  class ThroughStore : public Transfer {
   public:
    ThroughStore(NcclGroup& group, Buffer buffer, int root, uint64_t turn)
        : group_(group), buffer_(buffer), root_(root), turn_(turn) {
      if (group_.rank() != root_ || group_.size() == 1) return;
      group_.put(turn_, {buffer_.data, buffer_.bytes});
      group_.sent_.push_back(turn_);
    }
    void wait(milliseconds timeout) override {
      if (group_.rank() != root_ && !group_.take(turn_, root_, buffer_, Deadline(timeout)))
        throw missing_ranks(Kind::timeout, {root_}, "nothing within " + std::to_string(timeout.count()) + " ms");
    }

   private:
    NcclGroup& group_;
    Buffer buffer_;
    int root_;
    uint64_t turn_;
  };

  // The pieces up to number `end`, counted over the life of the group.
  class OnDevice : public Transfer {
   public:
    // `late`: whom a timeout names.
    OnDevice(NcclGroup& group, std::vector<int> late, uint64_t end)
        : group_(group), late_(std::move(late)), end_(end) {}
    ~OnDevice() override {
      if (group_.pieces_.done() < end_) group_.abandon();
    }
    void wait(milliseconds timeout) override {
      group_.require_usable();
      group_.poll_until([this] { return group_.pieces_.advance(*group_.session_) >= end_; }, Deadline(timeout), late_,
                        "no progress within " + std::to_string(timeout.count()) + " ms");
    }

   private:
    NcclGroup& group_;
    const std::vector<int> late_;
    const uint64_t end_;
  };

  // Of the pieces up to this number.
  std::unique_ptr<Transfer> begin(uint64_t end, std::vector<int> late) {
    auto transfer = std::make_unique<OnDevice>(*this, std::move(late), end);
    session_->use_device();
    pieces_.advance(*session_);
    return transfer;
  }

  // Polls `done` until it is true: NCCL and CUDA have no wait with a deadline. `late`: whom a timeout names.
  template <class Done>
  void poll_until(Done done, const Deadline& deadline, const std::vector<int>& late, const std::string& timeout) {
    session_->use_device();
    Pauses pauses(stop_);
    Deadline look(kLookAtStore);
    while (!done()) {
      if (stop_.stop_requested()) throw TransferError(Kind::stopped, {}, "the group was stopped");
      if (deadline.passed())
        throw late.empty() ? TransferError(Kind::timeout, {}, timeout) : missing_ranks(Kind::timeout, late, timeout);
      if (look.passed()) {
        require_members();
        look = Deadline(kLookAtStore);
      }
      pauses.next();
    }
  }

  void require_usable() const {
    if (broken_) throw TransferError(Kind::peer_lost, {}, "the group is broken");
  }

  bool is_healthy() const noexcept {
    try {
      return session_ && !broken_ && pieces_.empty() && session_->idle();
    } catch (const TransferError&) {
      return false;
    }
  }

  // From now on the memory of the pieces belongs to their caller alone: kernels use only that of the session.
  void abandon() {
    broken_ = true;
    pieces_.clear();
    leave();
    session_->finish_copies();
  }

  // Tells the others, before an end of the communicator that may take long.
  void leave() noexcept {
    if (std::exchange(left_, true)) return;
    try {
      std::string done;
      for (int other = 0; other < size(); ++other) done += std::to_string(pieces_.done_with(other)) + ' ';
      store_->set(left_key(rank()), done);
      store_->set(group_key(rendezvous_, "left"), "1");
    } catch (const std::exception&) {  // the store is gone, and with it rank 0, as the others will see
    }
  }

  // Throws if a member has left before it completed the piece that this rank waits for.
  void require_members() {
    if (!store_->has(group_key(rendezvous_, "left"))) return;
    for (const int other : pieces_.awaited()) {
      if (!store_->has(left_key(other))) continue;
      std::istringstream text(store_->get(left_key(other), other, Deadline(kEndLimit), stop_));
      uint64_t done = 0;  // with this rank
      for (int each = 0; each <= rank(); ++each) text >> done;
      if (!text || done <= pieces_.done_with(other)) throw missing_ranks(Kind::peer_lost, {other}, "left the group");
    }
  }

  std::string left_key(int other) const { return group_key(rendezvous_, "left/" + std::to_string(other)); }
  std::string key(uint64_t turn, int from) const {
    return group_key(rendezvous_, "turn/" + std::to_string(turn) + '/' + std::to_string(from));
  }
  void put(uint64_t turn, ConstBytes bytes) {
    store_->set(key(turn, rank()), {static_cast<const char*>(bytes.data), bytes.size});
  }
  // False when the deadline passes first.
  bool take(uint64_t turn, int from, Buffer buffer, const Deadline& deadline) {
    std::string value;
    try {
      value = store_->get(key(turn, from), from, deadline, stop_, left_key(from));
    } catch (const TransferError& error) {
      if (error.kind() == Kind::timeout) return false;
      throw;
    }
    if (value.size() != buffer.bytes)
      throw missing_ranks(
          Kind::protocol, {from},
          "sent " + std::to_string(value.size()) + " bytes where " + std::to_string(buffer.bytes) + " were due");
    if (!value.empty()) std::memcpy(buffer.data, value.data(), value.size());  // memory of 0 bytes may be null
    return true;
  }
  // The root of a gather has an answer of every rank, so all have read what came before it. Without this the store
  // would grow with every transfer.
  void forget_turns(uint64_t gathered) {
    for (int from = 0; from < size(); ++from)
      if (from != rank()) store_->erase(key(gathered, from));
    for (const uint64_t turn : std::exchange(sent_, {})) store_->erase(key(turn, rank()));
  }

  const Rendezvous rendezvous_;
  const std::unique_ptr<GroupStore> store_;
  const std::stop_token stop_;
  std::unique_ptr<NcclSession> session_;
  NcclPieces pieces_;
  uint64_t turn_ = 0;           // of the next operation of all ranks
  std::vector<uint64_t> sent_;  // turns of which the store has a broadcast of this rank
  bool broken_ = false, left_ = false;
};

class NcclBackend : public GroupBackend {
 public:
  explicit NcclBackend(BackendOptions options) : options_(std::move(options)) {
    if (const std::string why = why_no_cuda_device(options_.device); !why.empty())
      throw ConfigError("nccl: " + why + "; use gloo");
  }

  std::string_view name() const override { return "nccl"; }

  Rendezvous host() override {
    const MutexLock lock(mutex_);
    if (!listener_) listener_ = GroupStore::listen(options_.address);
    return {.host = options_.address, .port = listener_->port()};
  }

  std::unique_ptr<ProcessGroup> join(const Rendezvous& r, milliseconds timeout, std::stop_token stop) override {
    check_rendezvous(r);
    const Deadline deadline(timeout);
    // With a kernel that does not end, calls of CUDA could block without a limit.
    if (!sessions_have_ended(deadline, stop))
      throw TransferError(Kind::timeout, {}, "an earlier communicator of this process has not ended");
    auto store = GroupStore::connect(r.host, r.port, deadline.left());
    store->meet(r, deadline, stop);
    const std::string id = id_of_group(r, *store, deadline, stop);
    auto group = std::make_unique<NcclGroup>(r, std::move(store), std::move(stop));
    group->connect(options_.device, id, deadline);
    return group;
  }

 private:
  static std::string id_of_group(const Rendezvous& r, GroupStore& store, const Deadline& deadline,
                                 const std::stop_token& stop) {
    const std::string key = group_key(r, "nccl");
    if (r.rank != 0) return store.get(key, 0, deadline, stop);
    std::string id = NcclSession::new_id();
    store.set(key, id);
    return id;
  }

  const BackendOptions options_;
  Mutex mutex_;
  std::unique_ptr<GroupStore> listener_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<GroupBackend> make_nccl_backend(const BackendOptions& options) {
  return std::make_shared<NcclBackend>(options);
}

std::string why_no_cuda_device(int device) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  if (count == 0) return "this machine has no GPU";
  if (device >= 0 && device < count) return "";
  return "this machine has no GPU with number " + std::to_string(device) + ", they are 0 to " +
         std::to_string(count - 1);
}

}  // namespace troupe
