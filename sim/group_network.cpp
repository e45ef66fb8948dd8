#include "sim/group_network.h"

#include <cstring>
#include <utility>
#include <vector>

#include "runtime/weights/channel.h"

namespace troupe::sim {

namespace {

using Kind = TransferError::Kind;
using std::chrono::milliseconds;

}  // namespace

class SimulatedGroup final : public ProcessGroup {
 public:
  SimulatedGroup(GroupNetwork& network, std::unique_ptr<ProcessGroup> group, const std::function<bool()>& stalled)
      : ProcessGroup(group->rank(), group->size()), network_(network), group_(std::move(group)), stalled_(stalled) {}

  bool survives_timeout() const override { return true; }

  std::unique_ptr<Transfer> start_broadcast(Buffer buffer, int root) override {
    if (rank() != root) return std::make_unique<Incoming>(*this, group_->start_broadcast(buffer, root), buffer, root);
    note();
    return group_->start_broadcast(buffer, root);
  }

  std::unique_ptr<Transfer> start_exchange(std::span<const PeerBuffer> parts) override {
    note();
    return group_->start_exchange(parts);
  }

  void gather(const void* mine, void* all, size_t bytes, int root, milliseconds timeout) override {
    note();
    if (rank() == root || bytes != sizeof(TransferAnswer)) return group_->gather(mine, all, bytes, root, timeout);
    TransferAnswer answer;
    std::memcpy(&answer, mine, sizeof answer);
    if (answer.status == TransferStatus::corrupt && mutation() == Mutation::weights_unloaded)
      answer = {TransferStatus::applied, header_.epoch, header_.number};
    group_->gather(&answer, nullptr, bytes, root, timeout);
  }

 private:
  class Incoming final : public Transfer {
   public:
    Incoming(SimulatedGroup& group, std::unique_ptr<Transfer> transfer, Buffer buffer, int root)
        : group_(group), transfer_(std::move(transfer)), buffer_(buffer), root_(root) {}
    void wait(milliseconds timeout) override {
      if (group_.stalled_()) throw TransferError(Kind::timeout, {root_}, "the connection stalls on purpose");
      transfer_->wait(timeout);
      group_.note();
      World& world = group_.network_.world_;
      if (world.fault(world.scenario.transfer_damaged)) {
        ++world.damaged_transfers;
        static_cast<unsigned char*>(buffer_.data)[world.rng.below(buffer_.bytes)] ^= 1;
      }
      group_.plant(buffer_);
    }

   private:
    SimulatedGroup& group_;
    std::unique_ptr<Transfer> transfer_;
    Buffer buffer_;
    int root_;
  };

  Mutation mutation() const { return network_.world_.scenario.mutation; }

  // Mutations that concern the blocks of a transfer: a header, the weights, a seal.
  void plant(Buffer block) {
    if (mutation() != Mutation::weights_unloaded && mutation() != Mutation::checksum_ignored) return;
    auto* bytes = static_cast<unsigned char*>(block.data);
    if (block.bytes == sizeof(TransferHeader)) {
      std::memcpy(&header_, bytes, sizeof header_);
      weights_.clear();
    } else if (block.bytes != sizeof(TransferSeal)) {
      if (header_.number > 0 && network_.world_.rng.below(4) == 0) bytes[0] ^= 1;
      weights_.insert(weights_.end(), bytes, bytes + block.bytes);
    } else if (mutation() == Mutation::checksum_ignored) {
      const TransferSeal seal{checksum_of(weights_.data(), weights_.size())};
      std::memcpy(bytes, &seal, sizeof seal);
    }
  }

  void note() {
    ++network_.operations_;
    World& world = network_.world_;
    if (!world.fault(world.scenario.transfer_breaks)) return;
    ++world.broken_transfers;
    const int other = rank() == 0 ? static_cast<int>(world.rng.below(static_cast<uint64_t>(size()))) : 0;
    // At the sender sometimes without a hint at who was lost.
    throw TransferError(Kind::peer_lost, other == rank() ? std::vector<int>{} : std::vector<int>{other},
                        "a transfer broke on purpose");
  }

  GroupNetwork& network_;
  std::unique_ptr<ProcessGroup> group_;
  const std::function<bool()> stalled_;
  TransferHeader header_;               // of the transfer under way
  std::vector<unsigned char> weights_;  // that it has brought so far
};

class SimulatedBackend final : public GroupBackend {
 public:
  SimulatedBackend(GroupNetwork& network, std::function<bool()> stalled)
      : network_(network), stalled_(std::move(stalled)) {}

  std::string_view name() const override { return "simulated"; }

  Rendezvous host() override {
    if (port_ == 0) {
      port_ = static_cast<uint16_t>(network_.hosts_.size() + 1);
      network_.hosts_[port_] = make_in_process_backend();
    }
    return {.host = "simulated", .port = port_};
  }

  std::unique_ptr<ProcessGroup> join(const Rendezvous& r, milliseconds timeout, std::stop_token stop) override {
    ++network_.operations_;
    return std::make_unique<SimulatedGroup>(network_, network_.hosts_.at(r.port)->join(r, timeout, std::move(stop)),
                                            stalled_);
  }

 private:
  GroupNetwork& network_;
  const std::function<bool()> stalled_;
  uint16_t port_ = 0;
};

std::shared_ptr<GroupBackend> GroupNetwork::backend(std::function<bool()> stalled) {
  return std::make_shared<SimulatedBackend>(*this, std::move(stalled));
}

}  // namespace troupe::sim
