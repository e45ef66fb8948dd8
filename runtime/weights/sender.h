#pragma once
// WeightSender: the trainer's end of the weight plane. It keeps the newest snapshot, the list of receivers and their
// group, and brings every receiver up to the newest version. A receiver that misses a deadline or breaks its connection
// is removed, and the group is rebuilt without it under the next generation. So it costs the others at most one
// deadline. It can be admitted again.
//
// Everything but step() and wait_for_work() may be called from any thread and returns at once; those two belong to one
// thread:
//   while (!done) if (sender.wait_for_work(1s)) handle(sender.step());

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/weights/channel.h"
#include "runtime/weights/inference_index.h"

namespace troupe {

struct ReceiverReport {
  enum class State : uint8_t {
    waiting,    // admitted, not in a group yet
    connected,  // in the group
    lost,       // removed from the group; `trouble` says why
  };
  InferenceIndex inference_index = 0;
  State state = State::waiting;
  std::optional<PolicyVersion> applied;
  uint64_t behind = 0;  // snapshots published - applied
  std::string trouble;
};

struct SenderStep {
  enum class Did : uint8_t {
    nothing,    // no work, or no receivers
    connected,  // a new group is connected
    sent,       // all bytes are on their way; the next step collects the answers
    delivered,  // every member of the group has answered
    failed,     // the group was destroyed; the next step rebuilds it from the remaining members
    stopped,
  };
  Did did = Did::nothing;
  std::vector<InferenceIndex> lost;  // removed from the group in this step
  std::string error;                 // empty with `failed` when a member was removed
};

class WeightSender {
 public:
  // Hands an invitation to a receiver (WeightReceiver::invite) over the control plane; must not block.
  using Deliver = std::function<void(InferenceIndex, const Rendezvous&)>;

  WeightSender(std::shared_ptr<GroupBackend> backend, std::shared_ptr<const Signature> signature, Deliver deliver,
               ChannelOptions options = {});

  // Admits a receiver, also again after a restart. If its signature differs, refuses it and returns the first
  // difference.
  std::optional<std::string> admit(InferenceIndex inference_index, const Signature& theirs);
  // Cancels the group's current operation, so that the others need not wait for the deadline of a lost receiver.
  void remove(InferenceIndex inference_index);

  // Makes these the newest weights; the ones before them are skipped where they were not sent yet. Returns false when
  // that version is the newest already. Throws InvariantError when the version goes backwards or the signature is not
  // the run's.
  bool publish(WeightsPtr weights);
  WeightsPtr newest() const;

  // One phase of the work: connect, send, or collect answers. Blocks no longer than the options allow.
  SenderStep step();
  // True as soon as step() has something to do; false after `timeout` or once stopped.
  bool wait_for_work(std::chrono::milliseconds timeout);
  // Final: a running step ends early, later ones do nothing.
  void stop();

  std::vector<ReceiverReport> receivers() const;
  uint64_t generation() const;  // of the newest group
  uint64_t skipped() const;     // snapshots replaced by a newer one before any receiver got them

 private:
  struct Member {
    ReceiverReport::State state = ReceiverReport::State::waiting;
    uint64_t admission = 0;    // distinguishes a restarted receiver from its predecessor
    uint64_t applied_seq = 0;  // 1 is the first snapshot published
    std::optional<PolicyVersion> applied;
    std::string trouble;
  };
  struct RankHolder {  // index + 1 is the rank
    InferenceIndex inference_index;
    uint64_t admission;
  };
  struct Sending {
    WeightsPtr weights;
    uint64_t seq;
    Deadline deadline;
  };

  SenderStep connect();
  SenderStep send();
  SenderStep collect();
  SenderStep fail(const TransferError& error);
  Member* member_at(const RankHolder& holder) TROUPE_REQUIRES(mutex_);
  void set_aside(const RankHolder& holder, const std::string& trouble, std::vector<InferenceIndex>& lost)
      TROUPE_REQUIRES(mutex_);
  bool something_to_send() const TROUPE_REQUIRES(mutex_);
  bool has_work() const TROUPE_REQUIRES(mutex_);

  const std::shared_ptr<GroupBackend> backend_;
  const std::shared_ptr<const Signature> signature_;
  const Deliver deliver_;
  const ChannelOptions options_;
  const Rendezvous host_;
  std::stop_source stop_;

  mutable Mutex mutex_;
  std::condition_variable_any work_;
  std::map<InferenceIndex, Member> members_ TROUPE_GUARDED_BY(mutex_);
  bool regroup_ TROUPE_GUARDED_BY(mutex_) = false;    // the group must be rebuilt because the members changed
  std::stop_source leave_ TROUPE_GUARDED_BY(mutex_);  // cancels the operations of the current group
  WeightsPtr newest_ TROUPE_GUARDED_BY(mutex_);
  uint64_t published_ TROUPE_GUARDED_BY(mutex_) = 0;
  uint64_t begun_ TROUPE_GUARDED_BY(mutex_) = 0;  // the newest snapshot whose transfer has begun
  uint64_t skipped_ TROUPE_GUARDED_BY(mutex_) = 0;
  uint64_t admissions_ TROUPE_GUARDED_BY(mutex_) = 0;
  uint64_t generation_ TROUPE_GUARDED_BY(mutex_) = 0;

  std::unique_ptr<ProcessGroup> group_;  // this and below: the stepping thread only
  std::vector<RankHolder> ranks_;
  std::optional<Sending> sending_;
};

}  // namespace troupe
