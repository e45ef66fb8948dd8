#include "runtime/weights/receiver.h"

#include <utility>

#include "runtime/base/blocked.h"

namespace troupe {

using Did = ReceiverStep::Did;

WeightReceiver::WeightReceiver(std::shared_ptr<GroupBackend> backend, std::shared_ptr<const Signature> signature,
                               std::shared_ptr<WeightSlot> slot, ChannelOptions options)
    : backend_(std::move(backend)), signature_(std::move(signature)), slot_(std::move(slot)), options_(options) {}

void WeightReceiver::invite(const Rendezvous& rendezvous) {
  check_rendezvous(rendezvous);
  const MutexLock lock(mutex_);
  const bool same_sender = rendezvous.host == last_.host && rendezvous.port == last_.port;
  if (same_sender && rendezvous.generation <= last_.generation) return;
  invitation_ = last_ = rendezvous;
  leave_.request_stop();
  changed_.notify_all();
}

void WeightReceiver::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  leave_.request_stop();
  changed_.notify_all();
}

ReceiverStep WeightReceiver::step(std::chrono::milliseconds idle) {
  for (;;)
    if (std::optional<ReceiverStep> done = try_step(idle)) return *std::move(done);
}

std::optional<ReceiverStep> WeightReceiver::try_step(std::chrono::milliseconds idle) {
  std::optional<Rendezvous> invitation;
  std::stop_token leave;
  {
    const MutexLock lock(mutex_);
    if (!group_ && !lost_after_swap_) {
      const Blocked blocked;
      changed_.wait_for(mutex_, idle, [this]() TROUPE_REQUIRES(mutex_) { return invitation_ || stopped_; });
    }
    if (stopped_) return ReceiverStep{Did::stopped, nullptr, {}};
    invitation = std::exchange(invitation_, std::nullopt);
    if (invitation) leave_ = {};
    leave = leave_.get_token();
  }
  const auto lost = std::exchange(lost_after_swap_, std::nullopt);
  try {
    if (invitation) return join(*invitation, leave);
    if (lost) return ReceiverStep{Did::lost, nullptr, *lost};
    return group_ ? receive(idle) : ReceiverStep{};
  } catch (const TransferError& error) {
    group_.reset();
    {
      const MutexLock lock(mutex_);
      if (stopped_) return ReceiverStep{Did::stopped, nullptr, {}};
      if (!invitation_) return ReceiverStep{Did::lost, nullptr, error.what()};
    }
    return std::nullopt;
  }
}

ReceiverStep WeightReceiver::join(const Rendezvous& invitation, std::stop_token leave) {
  group_.reset();
  const Blocked blocked;
  group_ = backend_->join(invitation, options_.connect_timeout, std::move(leave));
  return {Did::joined, nullptr, {}};
}

bool WeightReceiver::begins(TransferHeader& header, std::chrono::milliseconds idle) {
  try {
    group_->broadcast({&header, sizeof header}, 0, idle);
    return true;
  } catch (const TransferError& error) {
    if (error.kind() == TransferError::Kind::timeout && group_->survives_timeout()) return false;
    throw;
  }
}

ReceiverStep WeightReceiver::receive(std::chrono::milliseconds idle) {
  TransferHeader header;
  if (!begins(header, idle)) return {};
  if (const auto fault = fault_in(header, *signature_)) throw TransferError(TransferError::Kind::protocol, {0}, *fault);

  const Deadline deadline(options_.transfer_timeout);
  Array block = Array::uninitialized(DType::u8, {static_cast<int64_t>(header.bytes)});
  const uint64_t checksum = move_buckets(*group_, block.mutable_data(), header.bytes, header.bucket_bytes, deadline);
  TransferSeal seal;
  group_->broadcast({&seal, sizeof seal}, 0, deadline.left());
  TransferAnswer answer;
  ReceiverStep result = swap_in(header, std::move(block), checksum == seal.checksum, answer);
  try {
    const Blocked blocked;
    group_->gather(&answer, nullptr, sizeof answer, 0, deadline.left());
  } catch (const TransferError& error) {
    // The new weights are in the slot, so this step must report them. If the sender misses the answer, it sends them
    // again, and that transfer will only be `unchanged`.
    if (result.did != Did::applied) throw;
    group_.reset();
    lost_after_swap_ = error.what();
  }
  return result;
}

ReceiverStep WeightReceiver::swap_in(const TransferHeader& header, Array block, bool intact, TransferAnswer& answer) {
  const PolicyVersion version{header.epoch, header.number};
  ReceiverStep result{Did::unchanged, nullptr, {}};
  if (!intact) {
    answer.status = TransferStatus::corrupt;
    result.error = "the checksum of version " + version.text() + " does not match";
  } else {
    auto weights = std::make_shared<const WeightSnapshot>(WeightSnapshot{version, signature_, std::move(block)});
    switch (slot_->offer(weights)) {
      case WeightSlot::Offer::applied:
        answer.status = TransferStatus::applied;
        result = {Did::applied, std::move(weights), {}};
        break;
      case WeightSlot::Offer::same: answer.status = TransferStatus::same; break;
      case WeightSlot::Offer::older:
        answer.status = TransferStatus::older;
        result.error = "refused version " + version.text() + ": versions never go backwards";
        break;
    }
  }
  if (const WeightsPtr now = slot_->get()) {
    answer.epoch = now->version.epoch;
    answer.number = now->version.number;
  }
  return result;
}

}  // namespace troupe
