// A broadcast is a send to every other rank rather than Gloo's own tree: a send can be aborted from another thread, its
// failure shows which rank is late or lost, and it needs no hand-over to Gloo's worker threads.
//
// When a connection breaks, Gloo does not fail an operation that has begun to move bytes (gloo/transport/tcp/pair.cc:
// Pair::signalException visits only operations that are still queued). Such an operation would wait for its deadline.
// A receive that is still queued does fail. So each connection has one receive that is never answered, and a thread
// that waits for it to fail.

#include "runtime/weights/process_group_gloo.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/weights/process_group_store.h"

namespace troupe {

namespace {

using std::chrono::milliseconds;
using Kind = TransferError::Kind;
using Gloo = c10d::ProcessGroupGloo;
using Work = c10::intrusive_ptr<c10d::Work>;

at::Tensor tensor_over(const void* data, size_t bytes) {
  return at::from_blob(const_cast<void*>(data), {static_cast<int64_t>(bytes)}, at::kByte);
}

// c10d takes 0 for "no limit".
milliseconds at_least_one(milliseconds timeout) { return std::max(timeout, milliseconds(1)); }

// One send or receive and the rank at its other end.
struct PeerWork {
  int rank;
  Work work;
};

class GlooGroup : public ProcessGroup {
 public:
  GlooGroup(const Rendezvous& r, std::unique_ptr<GroupStore> connection, c10::intrusive_ptr<Gloo> gloo,
            std::stop_token stop)
      : ProcessGroup(r.rank, r.size),
        connection_(std::move(connection)),
        gloo_(std::move(gloo)),
        stop_(stop),
        sent_(static_cast<size_t>(r.size)),
        received_(static_cast<size_t>(r.size)),
        lost_(static_cast<size_t>(r.size)),
        on_stop_(std::move(stop), [this] { abort_all(); }) {
    for (int other = 0; other < size(); ++other)
      if (other != rank()) watch(other);
  }
  ~GlooGroup() override {
    for (const Work& work : unanswered_) work->abort();
  }

  std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) override {
    TROUPE_CHECK(buffer.device == Device::host && root >= 0 && root < size(), "root", root, "of", size());
    auto transfer = std::make_unique<InFlight>(*this);
    const int tag = next_tag(tag_);
    if (buffer.bytes == 0) return transfer;
    if (rank() != root) {
      transfer->add(start(root, tag, buffer.data, buffer.bytes, &Gloo::recv));
    } else {
      for (int to = 0; to < size(); ++to)
        if (to != root) transfer->add(start(to, tag, buffer.data, buffer.bytes, &Gloo::send));
    }
    return transfer;
  }

  std::unique_ptr<Transfer> start_exchange(std::span<const PeerBuffer> parts) override {
    check_parts(parts);
    auto transfer = std::make_unique<InFlight>(*this);
    for (const PeerBuffer& part : parts) {
      TROUPE_CHECK(part.buffer.device == Device::host, part.peer);
      if (part.buffer.bytes == 0) continue;
      const bool send = part.direction == PeerBuffer::Direction::send;
      const int tag = next_tag((send ? sent_ : received_)[static_cast<size_t>(part.peer)]) + kExchangeTag;
      transfer->add(start(part.peer, tag, part.buffer.data, part.buffer.bytes, send ? &Gloo::send : &Gloo::recv));
    }
    return transfer;
  }

  void gather(const void* mine, void* all, size_t bytes, int root, milliseconds timeout) override {
    TROUPE_CHECK(bytes > 0 && root >= 0 && root < size(), "root", root, "of", size());
    InFlight transfer(*this);
    const int tag = next_tag(tag_);
    if (rank() != root) {
      transfer.add(start(root, tag, mine, bytes, &Gloo::send));
    } else {
      auto* place = static_cast<std::byte*>(all);
      std::memcpy(place + static_cast<size_t>(root) * bytes, mine, bytes);
      for (int from = 0; from < size(); ++from)
        if (from != root) transfer.add(start(from, tag, place + static_cast<size_t>(from) * bytes, bytes, &Gloo::recv));
    }
    transfer.wait(timeout);
  }

 private:
  using Operation = Work (Gloo::*)(std::vector<at::Tensor>&, int, int);

  class InFlight : public Transfer {
   public:
    explicit InFlight(GlooGroup& group) : group_(group) {}
    ~InFlight() override { group_.forget(works_); }
    void add(PeerWork work) { works_.push_back(std::move(work)); }
    void wait(milliseconds timeout) override { group_.finish(works_, timeout); }

   private:
    GlooGroup& group_;
    std::vector<PeerWork> works_;
  };

  PeerWork start(int other, int tag, const void* data, size_t bytes, Operation operation) {
    std::vector<at::Tensor> tensors{tensor_over(data, bytes)};
    try {
      PeerWork started{other, ((*gloo_).*operation)(tensors, other, tag)};
      const MutexLock lock(mutex_);
      if (stop_.stop_requested()) throw_stopped();
      if (lost_[other]) throw missing_ranks(Kind::peer_lost, {other}, *lost_[other]);
      pending_.push_back(started);
      return started;
    } catch (const TransferError&) {
      throw;
    } catch (const std::exception& error) {
      throw missing_ranks(Kind::peer_lost, {other}, plain_reason(error));
    }
  }

  // A timeout names every rank that is late. A broken connection is reported at once.
  void finish(std::vector<PeerWork>& works, milliseconds timeout) {
    const Deadline deadline(timeout);
    {
      const MutexLock lock(mutex_);
      waiting_until_ = deadline;
    }
    std::vector<int> late;
    for (PeerWork& peer : works) {
      std::string error;
      try {
        if (peer.work->wait(at_least_one(deadline.left()))) continue;
        error = why_lost(peer.rank);
      } catch (const std::exception& exception) {
        error = plain_reason(exception);
      }
      if (stop_.stop_requested()) throw_stopped();
      if (!deadline.passed()) throw missing_ranks(Kind::peer_lost, {peer.rank}, error);
      late.push_back(peer.rank);
    }
    if (!late.empty())
      throw missing_ranks(Kind::timeout, std::move(late),
                          "no progress within " + std::to_string(timeout.count()) + " ms");
  }

  void forget(const std::vector<PeerWork>& works) {
    const MutexLock lock(mutex_);
    for (const PeerWork& peer : works)
      std::erase_if(pending_, [&](const PeerWork& each) { return each.work == peer.work; });
  }

  // Calls lose() when the connection to that rank breaks.
  void watch(int other) {
    std::vector<at::Tensor> nothing{tensor_over(&never_written_, 1)};
    Work work;
    try {
      work = gloo_->recv(nothing, other, kUnansweredTag);
    } catch (const std::exception& error) {
      const MutexLock lock(mutex_);
      lost_[other] = plain_reason(error);
      return;
    }
    unanswered_.push_back(work);
    watchers_.emplace_back([this, other, work] {
      try {
        work->wait(kForever);
      } catch (const std::exception& error) {
        lose(other, plain_reason(error));
      }
    });
  }

  void lose(int other, const std::string& error) {
    const MutexLock lock(mutex_);
    lost_[other] = error;
    // At a timeout, Gloo itself closes all connections. finish() then knows of the timeout and still has to find out
    // which ranks are late, so the other operations must not be aborted.
    if (waiting_until_ && waiting_until_->passed()) return;
    for (const PeerWork& peer : pending_)
      if (peer.rank == other) peer.work->abort();
  }

  std::string why_lost(int other) {
    const MutexLock lock(mutex_);
    return lost_[other].value_or("the connection broke");
  }

  void abort_all() {
    const MutexLock lock(mutex_);
    for (const PeerWork& peer : pending_) peer.work->abort();
  }

  [[noreturn]] void throw_stopped() const { throw TransferError(Kind::stopped, {}, "the group was stopped"); }

  // Tags of operations of all ranks are 1 to kExchangeTag, those of exchanges follow.
  static constexpr int kUnansweredTag = 0, kExchangeTag = 0x3FFFFFFF;
  static int next_tag(int& last) { return last = last % kExchangeTag + 1; }

  const std::unique_ptr<GroupStore> connection_;  // Gloo keeps using it
  const c10::intrusive_ptr<Gloo> gloo_;
  const std::stop_token stop_;
  int tag_ = 0;                       // of the last operation of all ranks
  std::vector<int> sent_, received_;  // by rank: of the last exchange with it, without kExchangeTag
  Mutex mutex_;
  std::vector<PeerWork> pending_ TROUPE_GUARDED_BY(mutex_);
  std::vector<std::optional<std::string>> lost_ TROUPE_GUARDED_BY(mutex_);  // by rank: why its connection broke
  std::optional<Deadline> waiting_until_ TROUPE_GUARDED_BY(mutex_);         // of the newest wait
  std::byte never_written_{};
  std::vector<Work> unanswered_;
  const std::stop_callback<std::function<void()>> on_stop_;  // these two use the members above
  std::vector<std::jthread> watchers_;
};

class GlooBackend : public GroupBackend {
 public:
  explicit GlooBackend(BackendOptions options) : options_(std::move(options)) {
    struct sigaction now{};
    if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
  }

  std::string_view name() const override { return "gloo"; }

  Rendezvous host() override {
    const MutexLock lock(mutex_);
    if (!listener_) listener_ = GroupStore::listen(options_.address);
    return {.host = options_.address, .port = listener_->port()};
  }

  std::unique_ptr<ProcessGroup> join(const Rendezvous& r, milliseconds timeout, std::stop_token stop) override {
    auto [connection, gloo] = connect(r, timeout, stop);
    return std::make_unique<GlooGroup>(r, std::move(connection), std::move(gloo), std::move(stop));
  }

  std::pair<std::unique_ptr<GroupStore>, c10::intrusive_ptr<Gloo>> connect(const Rendezvous& r, milliseconds timeout,
                                                                           const std::stop_token& stop) {
    check_rendezvous(r);
    const Deadline deadline(timeout);
    auto connection = GroupStore::connect(r.host, r.port, timeout);
    connection->meet(r, deadline, stop);
    auto options = Gloo::Options::create(at_least_one(deadline.left()));
    options->threads = 1;
    auto store = c10::make_intrusive<c10d::PrefixStore>(
        group_key(r, "gloo"), c10::intrusive_ptr<c10d::Store>::reclaim_copy(&connection->raw()));
    try {
      options->devices.push_back(Gloo::createDeviceForHostname(options_.address));
      return {std::move(connection), c10::make_intrusive<Gloo>(store, r.rank, r.size, options)};
    } catch (const std::exception& error) {
      throw TransferError(deadline.passed() ? Kind::timeout : Kind::peer_lost, {},
                          "the members met, but could not connect: " + plain_reason(error));
    }
  }

 private:
  const BackendOptions options_;
  Mutex mutex_;
  std::unique_ptr<GroupStore> listener_ TROUPE_GUARDED_BY(mutex_);
};

class C10dBroadcast : public BareBroadcast {
 public:
  C10dBroadcast(GlooBackend& backend, const Rendezvous& r, milliseconds timeout)
      : connection_and_gloo_(backend.connect(r, timeout, {})) {}
  void run(void* data, size_t bytes, int root) override {
    std::vector<at::Tensor> tensors{tensor_over(data, bytes)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    connection_and_gloo_.second->broadcast(tensors, options)->wait();
  }

 private:
  std::pair<std::unique_ptr<GroupStore>, c10::intrusive_ptr<Gloo>> connection_and_gloo_;
};

}  // namespace

std::shared_ptr<GroupBackend> make_gloo_backend(const BackendOptions& options) {
  return std::make_shared<GlooBackend>(options);
}

std::unique_ptr<BareBroadcast> make_bare_broadcast(GroupBackend& backend, const Rendezvous& rendezvous,
                                                   milliseconds timeout) {
  return std::make_unique<C10dBroadcast>(dynamic_cast<GlooBackend&>(backend), rendezvous, timeout);
}

}  // namespace troupe
