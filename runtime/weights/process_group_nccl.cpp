// The communicator is non-blocking, so that a deadline or a stop can abort it: every wait asks NCCL for its state and
// CUDA for the event that ends the operation. A receiver that waits for a header waits at the store and not in a
// kernel, which would occupy the GPU until the next weights come.

#include "runtime/weights/process_group_nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/weights/process_group_store.h"

namespace troupe {

namespace {

using std::chrono::milliseconds;
using Kind = TransferError::Kind;

constexpr size_t kLargestThroughStore = 4096;

void check_cuda(cudaError_t result, const char* what) {
  if (result != cudaSuccess)
    throw TransferError(Kind::peer_lost, {}, std::string(what) + ": " + cudaGetErrorString(result));
}

// Owns a communicator; aborts it unless everything on it has completed.
class Communicator {
 public:
  Communicator(const Rendezvous& r, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&comm_, r.size, id, r.rank, &config), "ncclCommInitRankConfig");
  }
  ~Communicator() {
    if (comm_) ncclCommAbort(comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ncclComm_t get() const { return comm_; }

  void check(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    throw TransferError(Kind::peer_lost, {}, std::string(what) + ": " + ncclGetErrorString(result));
  }

  // True when the communicator itself has no pending call; throws when it has failed.
  bool idle() const {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    check(state, "NCCL");
    return state == ncclSuccess;
  }

  void abort() {
    if (comm_) ncclCommAbort(std::exchange(comm_, nullptr));
  }

 private:
  ncclComm_t comm_ = nullptr;
};

// Polls `done` until it is true. NCCL and CUDA have no wait with a deadline.
template <class Done>
void poll_until(Done done, const Deadline& deadline, const std::stop_token& stop, const char* what) {
  while (!done()) {
    if (stop.stop_requested()) throw TransferError(Kind::stopped, {}, "the group was stopped");
    if (deadline.passed()) throw TransferError(Kind::timeout, {}, std::string(what) + ": no progress in time");
    std::this_thread::yield();
  }
}

// Device memory and an event, freed at the end.
struct Staging {
  explicit Staging(size_t bytes) {
    if (bytes > 0) check_cuda(cudaMalloc(&data, bytes), "cudaMalloc");
    check_cuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~Staging() {
    if (done) cudaEventDestroy(done);
    if (data) cudaFree(data);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void* data = nullptr;
  cudaEvent_t done = nullptr;
};

class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(const Rendezvous& r, std::unique_ptr<GroupStore> store, std::unique_ptr<Communicator> communicator,
            std::stop_token stop)
      : ProcessGroup(r.rank, r.size),
        rendezvous_(r),
        store_(std::move(store)),
        communicator_(std::move(communicator)),
        stop_(std::move(stop)) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~NcclGroup() override {
    communicator_.reset();
    cudaStreamDestroy(stream_);
  }

  std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) override {
    TROUPE_CHECK(root >= 0 && root < size(), "root", root, "of", size());
    const uint64_t turn = turn_++;
    if (buffer.device == Device::host && buffer.bytes <= kLargestThroughStore)
      return std::make_unique<ThroughStore>(*this, buffer, root, turn);
    return std::make_unique<OnStream>(*this, buffer, root);
  }

  void gather(const void* mine, void* all, size_t bytes, int root, milliseconds timeout) override {
    TROUPE_CHECK(bytes <= kLargestThroughStore && root >= 0 && root < size(), bytes, "bytes to root", root, "of",
                 size());
    const Deadline deadline(timeout);
    const uint64_t turn = turn_++;
    if (rank() != root) return put(turn, rank(), {mine, bytes});
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
      if (group_.rank() == root_ && group_.size() > 1) group_.put(turn_, root_, {buffer_.data, buffer_.bytes});
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

  class OnStream : public Transfer {
   public:
    OnStream(NcclGroup& group, Buffer buffer, int root)
        : group_(group), staging_(buffer.device == Device::host ? buffer.bytes : 0) {
      try {
        enqueue(buffer, root);
      } catch (...) {
        cancel();
        throw;
      }
    }
    ~OnStream() override {
      if (!finished_) cancel();
    }
    void wait(milliseconds timeout) override {
      poll_until([this] { return over(); }, Deadline(timeout), group_.stop_, "ncclBroadcast");
      finished_ = true;
    }

   private:
    static constexpr milliseconds kEnqueue{10'000};

    void enqueue(Buffer buffer, int root) {
      const bool staged = buffer.device == Device::host;
      void* memory = staged ? staging_.data : buffer.data;
      const bool is_root = group_.rank() == root;
      if (staged && is_root) copy(memory, buffer.data, buffer.bytes, cudaMemcpyHostToDevice);
      const Communicator& comm = *group_.communicator_;
      comm.check(ncclBroadcast(memory, memory, buffer.bytes, ncclUint8, root, comm.get(), group_.stream_),
                 "ncclBroadcast");
      poll_until([&] { return comm.idle(); }, Deadline(kEnqueue), group_.stop_, "ncclBroadcast");
      if (staged && !is_root) copy(buffer.data, memory, buffer.bytes, cudaMemcpyDeviceToHost);
      check_cuda(cudaEventRecord(staging_.done, group_.stream_), "cudaEventRecord");
    }
    // Ends the kernel, so that only the caller uses the memory from now on.
    void cancel() {
      group_.communicator_->abort();
      cudaStreamSynchronize(group_.stream_);
    }
    bool over() {
      group_.communicator_->idle();  // throws when a peer is lost
      const cudaError_t state = cudaEventQuery(staging_.done);
      if (state != cudaErrorNotReady) check_cuda(state, "ncclBroadcast");
      return state == cudaSuccess;
    }
    void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
      check_cuda(cudaMemcpyAsync(to, from, bytes, kind, group_.stream_), "cudaMemcpyAsync");
    }

    NcclGroup& group_;
    Staging staging_;
    bool finished_ = false;
  };

  std::string key(uint64_t turn, int from) const {
    return group_key(rendezvous_, "turn/" + std::to_string(turn) + '/' + std::to_string(from));
  }
  void put(uint64_t turn, int from, ConstBytes bytes) {
    store_->set(key(turn, from), {static_cast<const char*>(bytes.data), bytes.size});
  }
  // False when the deadline passes first.
  bool take(uint64_t turn, int from, Buffer buffer, const Deadline& deadline) {
    std::string value;
    try {
      value = store_->get(key(turn, from), from, deadline, stop_);
    } catch (const TransferError& error) {
      if (error.kind() == Kind::timeout) return false;
      throw;
    }
    if (value.size() != buffer.bytes)
      throw missing_ranks(
          Kind::protocol, {from},
          "sent " + std::to_string(value.size()) + " bytes where " + std::to_string(buffer.bytes) + " were due");
    std::memcpy(buffer.data, value.data(), value.size());
    return true;
  }

  const Rendezvous rendezvous_;
  const std::unique_ptr<GroupStore> store_;
  std::unique_ptr<Communicator> communicator_;
  const std::stop_token stop_;
  cudaStream_t stream_ = nullptr;
  uint64_t turn_ = 0;
};

class NcclBackend : public GroupBackend {
 public:
  explicit NcclBackend(BackendOptions options) : options_(std::move(options)) {
    if (const std::string why = why_no_cuda_device(); !why.empty()) throw ConfigError("nccl: " + why + "; use gloo");
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
    auto store = GroupStore::connect(r.host, r.port, timeout);
    store->meet(r, deadline, stop);
    auto communicator = std::make_unique<Communicator>(r, unique_id(r, *store, deadline, stop));
    poll_until([&] { return communicator->idle(); }, deadline, stop, "ncclCommInitRank");
    return std::make_unique<NcclGroup>(r, std::move(store), std::move(communicator), std::move(stop));
  }

 private:
  static ncclUniqueId unique_id(const Rendezvous& r, GroupStore& store, const Deadline& deadline,
                                const std::stop_token& stop) {
    ncclUniqueId id{};
    if (r.rank == 0) {
      if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess)
        throw TransferError(Kind::peer_lost, {}, std::string("ncclGetUniqueId: ") + ncclGetErrorString(result));
      store.set(group_key(r, "nccl"), {id.internal, sizeof id.internal});
      return id;
    }
    const std::string text = store.get(group_key(r, "nccl"), 0, deadline, stop);
    if (text.size() != sizeof id.internal)
      throw missing_ranks(Kind::protocol, {0}, "its NCCL has an id of another size");
    std::memcpy(id.internal, text.data(), text.size());
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

std::string why_no_cuda_device() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  return count > 0 ? "" : "this machine has no GPU";
}

}  // namespace troupe
