// The communicator is non-blocking, so that every wait has a deadline and can be stopped: it asks NCCL for its state
// and CUDA for the event that ends the operation. A receiver that waits for a header waits at the store and not in a
// kernel, which would occupy the GPU until the next weights come.
//
// NCCL does not always notice that a peer has left: its kernel then waits for ever. So a member that leaves says so at
// the store, with the number of pieces that it has completed, and the others look there while they wait.

#include "runtime/weights/process_group_nccl.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/weights/process_group_session_nccl.h"
#include "runtime/weights/process_group_store.h"

namespace troupe {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Kind = TransferError::Kind;
using Use = NcclSession::Use;

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

// A part of one broadcast. Pieces are broadcast one after the other, in the same order on all ranks.
struct Piece {
  enum class Stage : uint8_t {
    queued,
    launching,  // NCCL is busy with the call
    running,
    copying,  // to device memory of the caller
  };
  std::byte* memory;
  size_t bytes;
  Device device;
  int root;
  Stage stage = Stage::queued;
  NcclSession::Slot* slot = nullptr;
};

class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(const Rendezvous& r, std::unique_ptr<GroupStore> store, std::stop_token stop)
      : ProcessGroup(r.rank, r.size), rendezvous_(r), store_(std::move(store)), stop_(std::move(stop)) {}
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
    auto* memory = static_cast<std::byte*>(buffer.data);
    for (size_t at = 0; at < buffer.bytes; at += NcclSession::kPieceBytes, ++begun_)
      pieces_.push_back({memory + at, std::min(NcclSession::kPieceBytes, buffer.bytes - at), buffer.device, root});
    auto transfer = std::make_unique<OnDevice>(*this, root, begun_);
    advance();
    return transfer;
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
    OnDevice(NcclGroup& group, int root, uint64_t end) : group_(group), root_(root), end_(end) {}
    ~OnDevice() override {
      if (group_.done_ < end_) group_.abandon();
    }
    void wait(milliseconds timeout) override {
      group_.require_usable();
      std::vector<int> late;
      if (group_.rank() != root_) late.push_back(root_);
      group_.poll_until([this] { return group_.advance() >= end_; }, Deadline(timeout), late,
                        "no progress within " + std::to_string(timeout.count()) + " ms");
    }

   private:
    NcclGroup& group_;
    const int root_;
    const uint64_t end_;
  };

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

  // Takes the pieces as far as they come without waiting. Returns how many are done.
  uint64_t advance() {
    session_->use_device();
    while (!pieces_.empty() && is_done(pieces_.front())) {
      pieces_.pop_front();
      ++done_;
      if (launched_ > 0) --launched_;
    }
    while (session_->idle()) {
      if (launched_ > 0 && pieces_[launched_ - 1].stage == Piece::Stage::launching) {
        Piece& busy = pieces_[launched_ - 1];
        session_->finish_launch(*busy.slot, busy.bytes, use_of(busy));
        busy.stage = Piece::Stage::running;
      }
      if (launched_ == pieces_.size() || !launch(pieces_[launched_])) break;
      ++launched_;
    }
    return done_;
  }

  // False when there is no slot.
  bool launch(Piece& piece) {
    piece.slot = session_->take_slot();
    if (!piece.slot) return false;
    const Use use = use_of(piece);
    const bool on_device = piece.device == Device::cuda;
    if (use == Use::send && !on_device) std::memcpy(piece.slot->host, piece.memory, piece.bytes);
    session_->launch(*piece.slot, on_device ? piece.memory : nullptr, piece.bytes, piece.root, use);
    piece.stage = Piece::Stage::launching;
    return true;
  }

  bool is_done(Piece& piece) {
    if (piece.stage == Piece::Stage::queued || piece.stage == Piece::Stage::launching) return false;
    if (!session_->has_ended(*piece.slot)) return false;
    const Use use = use_of(piece);
    if (use == Use::receive_on_device && piece.stage == Piece::Stage::running) {
      session_->copy_out(*piece.slot, piece.memory, piece.bytes);
      piece.stage = Piece::Stage::copying;
      return false;
    }
    if (use == Use::receive_on_host) std::memcpy(piece.memory, piece.slot->host, piece.bytes);
    session_->give_back(*piece.slot);
    return true;
  }

  Use use_of(const Piece& piece) const {
    if (piece.root == rank()) return Use::send;
    return piece.device == Device::cuda ? Use::receive_on_device : Use::receive_on_host;
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
    launched_ = 0;
    leave();
    session_->finish_copies();
  }

  // Tells the others, before an end of the communicator that may take long.
  void leave() noexcept {
    if (std::exchange(left_, true)) return;
    try {
      store_->set(left_key(rank()), std::to_string(done_));
      store_->set(group_key(rendezvous_, "left"), "1");
    } catch (const std::exception&) {  // the store is gone, and with it rank 0, as the others will see
    }
  }

  // Throws if a member has left before it completed the piece that this rank waits for.
  void require_members() {
    if (!store_->has(group_key(rendezvous_, "left"))) return;
    for (int other = 0; other < size(); ++other) {
      if (other == rank() || !store_->has(left_key(other))) continue;
      const std::string done = store_->get(left_key(other), other, Deadline(kEndLimit), stop_);
      if (std::strtoull(done.c_str(), nullptr, 10) <= done_)
        throw missing_ranks(Kind::peer_lost, {other}, "left the group");
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
  std::deque<Piece> pieces_;    // in order; not done yet
  size_t launched_ = 0;         // the first of them
  uint64_t begun_ = 0;          // pieces of all broadcasts so far
  uint64_t done_ = 0;           // of them
  uint64_t turn_ = 0;           // of the next operation
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
