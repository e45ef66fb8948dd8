#pragma once
// ProcessGroup: a fixed set of ranks that exchange raw memory, and GroupBackend, which creates groups. The weight plane
// and the sum of gradients use them; the backends are "in_process" (threads of one process), "gloo" (TCP between hosts)
// and "nccl" (CUDA builds).
//
// Every rank calls the same operations in the same order, each group from one thread at a time; an exchange is called
// by the ranks that have a part in it. A group that has thrown TransferError cannot be used further (but see
// survives_timeout): destroy it and join again under a later generation. The rendezvous and the data connections are
// neither encrypted nor authenticated: bind them to loopback or to a trusted network.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/errors.h"

namespace troupe {

enum class Device : uint8_t { host = 0, cuda = 1 };

// Memory owned by the caller; it must outlive the operation on it.
struct Buffer {
  void* data = nullptr;
  size_t bytes = 0;
  Device device = Device::host;
};

// A part of an exchange: memory that goes to another rank, or that its bytes are written to.
struct PeerBuffer {
  enum class Direction : uint8_t { send, receive };
  Direction direction = Direction::send;
  int peer = 0;
  Buffer buffer;
};

// An operation of a group failed. ranks() are the members it was waiting for, as far as known.
class TransferError : public std::runtime_error {
 public:
  enum class Kind : uint8_t {
    timeout,    // the deadline passed
    peer_lost,  // a connection broke, or a member left
    stopped,    // the caller's stop token was triggered
    protocol,   // the peer sent invalid data: another version of the program, or damaged data
  };

  TransferError(Kind kind, std::vector<int> ranks, const std::string& text)
      : std::runtime_error(text), kind_(kind), ranks_(std::move(ranks)) {}
  Kind kind() const { return kind_; }
  const std::vector<int>& ranks() const { return ranks_; }

 private:
  Kind kind_;
  std::vector<int> ranks_;
};

// How one member finds the others; small enough for a message. Groups of one host and port are told apart by the
// generation.
struct Rendezvous {
  std::string host;
  uint16_t port = 0;
  uint64_t generation = 0;
  int rank = 0;
  int size = 0;
  friend bool operator==(const Rendezvous&, const Rendezvous&) = default;
};

// A pending operation. Destroying it releases its memory at once; if it was not complete, the group is broken.
// It must not outlive its group.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Blocks until the memory holds the data (or, where it was sent from, may be reused). Throws TransferError. Call it
  // at most once.
  virtual void wait(std::chrono::milliseconds timeout) = 0;
};

// For a wait that only the arrival of data, a lost peer or the stop token ends.
inline constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Whether the group can be used after a wait that timed out, so that a caller can poll. True only for "in_process",
  // and not for an exchange with several receives.
  virtual bool survives_timeout() const { return false; }

  // Starts to copy the root's bytes into every other rank's buffer of the same size; several may be pending; wait
  // for them in the order in which they were started. Completion at the root does not mean that any other
  // rank has the bytes yet.
  virtual std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) = 0;
  // Starts all these sends and receives together, at most one of each with a rank; a receive has the size of the send
  // of its peer. Several exchanges may be pending; wait for them in the order in which they were started. Ranks must
  // start them in orders that fit together: if no rank began one before it has completed those before, none would wait
  // for ever. Two ranks that both send before they receive would: they start both together, in one exchange. Completion
  // of a send does not mean that the other rank has the bytes yet. Throws TransferError when a peer is known to be
  // lost.
  virtual std::unique_ptr<Transfer> start_exchange(std::span<const PeerBuffer> parts) = 0;
  // Exchanges with one part.
  std::unique_ptr<Transfer> start_send(Buffer buffer, int to);
  std::unique_ptr<Transfer> start_receive(Buffer buffer, int from);
  // At the root, `all` gets every rank's `bytes` bytes (host memory) in rank order; elsewhere `all` is unused. Blocks.
  // Every transfer that was started before must have been waited for.
  virtual void gather(const void* mine, void* all, size_t bytes, int root, std::chrono::milliseconds timeout) = 0;

  void broadcast(Buffer buffer, int root, std::chrono::milliseconds timeout);
  // Returns when every rank has called it.
  void barrier(std::chrono::milliseconds timeout);

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}
  // For backends: throws InvariantError unless the parts are of other ranks of the group, at most one of each
  // direction.
  void check_parts(std::span<const PeerBuffer> parts) const;

 private:
  int rank_;
  int size_;
};

// Shared by the threads of a process.
class GroupBackend {
 public:
  virtual ~GroupBackend() = default;
  virtual std::string_view name() const = 0;
  // The address at which members find each other when rank 0 is in this process; starts to listen at the first call.
  // The caller fills in generation, rank and size. Throws ConfigError when the address cannot be bound.
  virtual Rendezvous host() = 0;
  // Makes this caller a member of the group. May block until every member has joined; a backend that does not block
  // reports a missing member at the first exchange. Every later operation ends early with TransferError::Kind::stopped
  // once `stop` is triggered.
  virtual std::unique_ptr<ProcessGroup> join(const Rendezvous& rendezvous, std::chrono::milliseconds timeout,
                                             std::stop_token stop = {}) = 0;
};

// A backend for threads of one process. Groups are found within this object only; join and the root of a broadcast
// never block, so a single thread can play all ranks in turn.
std::shared_ptr<GroupBackend> make_in_process_backend();

struct BackendOptions {
  std::string address = "127.0.0.1";  // address of this process for the other members; not 0.0.0.0
  int device = 0;                     // number of the GPU that "nccl" uses
};

// "in_process", "gloo" or "nccl"; throws ConfigError for another name or one that this build lacks. Defined in the
// library troupe_process_groups, which links LibTorch.
std::shared_ptr<GroupBackend> make_group_backend(std::string_view name, const BackendOptions& options);

// For backends: the error "ranks 1, 3: <what>".
TransferError missing_ranks(TransferError::Kind kind, std::vector<int> ranks, const std::string& what);

// For backends: throws InvariantError unless the rendezvous describes a group and `rank` is in it.
void check_rendezvous(const Rendezvous& rendezvous);

}  // namespace troupe
