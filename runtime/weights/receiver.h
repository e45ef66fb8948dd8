#pragma once
// WeightReceiver: an inference process's end of the weight plane. Receives into a second buffer, checks it, then puts
// it into the slot and returns it from step(). The caller sends it to the inference actor, which serves from the old
// weights until then.
//
// step() belongs to one thread; everything else may be called from any thread and returns at once:
//   while (handle(receiver.step()).did != ReceiverStep::Did::stopped) {}

#include <condition_variable>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/weights/channel.h"

namespace troupe {

struct ReceiverStep {
  enum class Did : uint8_t {
    nothing,    // no invitation, or no transfer, within the time given
    joined,     // in the group of the newest invitation
    applied,    // new weights are in the slot
    unchanged,  // a transfer came, but the slot has that version, or a newer one, or its checksum was wrong
    lost,       // the group has failed; the next step waits for an invitation. If none comes, join the run again.
    stopped,
  };
  Did did = Did::nothing;
  WeightsPtr weights;  // with `applied`
  std::string error;   // with `lost`, and with `unchanged` unless the version is the same
};

class WeightReceiver {
 public:
  WeightReceiver(std::shared_ptr<GroupBackend> backend, std::shared_ptr<const Signature> signature,
                 std::shared_ptr<WeightSlot> slot, ChannelOptions options = {});

  // Makes step() leave its group, even in the middle of a transfer, and join this one. An invitation to an earlier
  // generation of the same sender is ignored.
  void invite(const Rendezvous& rendezvous);
  // Joins the newest invitation if there is one, else receives one snapshot. Waits at most `idle` for an invitation or
  // for a transfer to begin. A group that does not survive a timeout is lost when no transfer has begun by then: wait
  // without limit there, and let invite() or stop() end it.
  ReceiverStep step(std::chrono::milliseconds idle = kForever);
  // Final: a running step ends early, later ones do nothing.
  void stop();

 private:
  // Nothing when the transfer failed but an invitation has come meanwhile.
  std::optional<ReceiverStep> try_step(std::chrono::milliseconds idle);
  ReceiverStep join(const Rendezvous& invitation, std::stop_token leave);
  ReceiverStep receive(std::chrono::milliseconds idle);
  bool begins(TransferHeader& header, std::chrono::milliseconds idle);
  ReceiverStep swap_in(const TransferHeader& header, Array block, bool intact, TransferAnswer& answer);

  const std::shared_ptr<GroupBackend> backend_;
  const std::shared_ptr<const Signature> signature_;
  const std::shared_ptr<WeightSlot> slot_;
  const ChannelOptions options_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Rendezvous> invitation_ TROUPE_GUARDED_BY(mutex_);  // not yet acted on
  Rendezvous last_ TROUPE_GUARDED_BY(mutex_);                       // the newest one seen
  std::stop_source leave_ TROUPE_GUARDED_BY(mutex_);                // cancels the operations of the current group
  bool stopped_ TROUPE_GUARDED_BY(mutex_) = false;

  std::unique_ptr<ProcessGroup> group_;         // this and below: the stepping thread only
  std::optional<std::string> lost_after_swap_;  // for the next step to report
};

}  // namespace troupe
