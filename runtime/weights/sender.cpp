#include "runtime/weights/sender.h"

#include <utility>

#include "runtime/base/blocked.h"

namespace troupe {

using State = ReceiverReport::State;
using SenderDid = SenderStep::Did;

WeightSender::WeightSender(std::shared_ptr<GroupBackend> backend, std::shared_ptr<const Signature> signature,
                           Deliver deliver, ChannelOptions options)
    : backend_(std::move(backend)),
      signature_(std::move(signature)),
      deliver_(std::move(deliver)),
      options_(options),
      host_(backend_->host()) {
  TROUPE_CHECK(options_.bucket_bytes > 0);
}

std::optional<std::string> WeightSender::admit(InferenceIndex inference_index, const Signature& theirs) {
  if (auto difference = signature_->first_difference(theirs)) return difference;
  const MutexLock lock(mutex_);
  Member& member = members_[inference_index] = {};
  member.admission = ++admissions_;
  regroup_ = true;
  work_.notify_all();
  return std::nullopt;
}

void WeightSender::remove(InferenceIndex inference_index) {
  const MutexLock lock(mutex_);
  const auto found = members_.find(inference_index);
  if (found == members_.end()) return;
  if (found->second.state != State::lost) {
    regroup_ = true;
    leave_.request_stop();
  }
  members_.erase(found);
  work_.notify_all();
}

bool WeightSender::publish(WeightsPtr weights) {
  TROUPE_CHECK(weights && weights->signature);
  if (weights->signature != signature_) {
    const auto difference = signature_->first_difference(*weights->signature);
    TROUPE_CHECK(!difference, "weights of another policy published:", *difference);
  }
  TROUPE_CHECK(weights->flat.bytes() == signature_->total_bytes(), weights->flat.bytes(), signature_->total_bytes());
  const MutexLock lock(mutex_);
  if (newest_ && weights->version == newest_->version) return false;
  TROUPE_CHECK(!newest_ || newest_->version < weights->version, "policy version", weights->version.text(),
               "published after", newest_->version.text());
  if (begun_ < published_ && something_to_send()) ++skipped_;
  newest_ = std::move(weights);
  ++published_;
  work_.notify_all();
  return true;
}

WeightsPtr WeightSender::newest() const {
  const MutexLock lock(mutex_);
  return newest_;
}

bool WeightSender::something_to_send() const {
  if (!newest_) return false;
  for (const auto& [inference_index, member] : members_)
    if (member.state != State::lost && member.applied_seq < published_) return true;
  return false;
}

bool WeightSender::has_work() const { return regroup_ || sending_ || something_to_send(); }

bool WeightSender::wait_for_work(std::chrono::milliseconds timeout) {
  const MutexLock lock(mutex_);
  return work_.wait_for(mutex_, stop_.get_token(), timeout, [this]() TROUPE_REQUIRES(mutex_) { return has_work(); }) &&
         !stop_.stop_requested();
}

void WeightSender::stop() {
  stop_.request_stop();
  const MutexLock lock(mutex_);
  leave_.request_stop();
}

SenderStep WeightSender::step() {
  if (stop_.stop_requested()) return {SenderDid::stopped, {}, {}};
  try {
    if (sending_) return collect();
    bool regroup, work;
    {
      const MutexLock lock(mutex_);
      regroup = regroup_;
      work = something_to_send();
    }
    if (regroup) return connect();
    return work && group_ ? send() : SenderStep{};
  } catch (const TransferError& error) {
    return fail(error);
  }
}

SenderStep WeightSender::connect() {
  Rendezvous invitation = host_;
  ranks_.clear();
  std::stop_token leave;
  {
    const MutexLock lock(mutex_);
    if (stop_.stop_requested()) return {SenderDid::stopped, {}, {}};
    leave_ = {};
    leave = leave_.get_token();
    regroup_ = false;
    invitation.generation = ++generation_;
    for (auto& [inference_index, member] : members_) {
      if (member.state == State::lost) continue;
      member.state = State::waiting;
      ranks_.push_back({inference_index, member.admission});
    }
  }
  group_.reset();
  if (ranks_.empty()) return {};
  invitation.size = static_cast<int>(ranks_.size()) + 1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    invitation.rank = static_cast<int>(i) + 1;
    deliver_(ranks_[i].inference_index, invitation);
  }
  invitation.rank = 0;
  {
    const Blocked blocked;
    group_ = backend_->join(invitation, options_.connect_timeout, leave);
  }
  const MutexLock lock(mutex_);
  for (const RankHolder& holder : ranks_)
    if (Member* member = member_at(holder)) member->state = State::connected;
  return {SenderDid::connected, {}, {}};
}

SenderStep WeightSender::send() {
  {
    const MutexLock lock(mutex_);
    sending_ = Sending{newest_, published_, Deadline(options_.transfer_timeout)};
    begun_ = published_;
  }
  const WeightSnapshot& weights = *sending_->weights;
  TransferHeader header = make_header(weights, options_.bucket_bytes);
  group_->broadcast({&header, sizeof header}, 0, sending_->deadline.left());
  // The root only reads.
  auto* block = const_cast<std::byte*>(weights.flat.data());
  TransferSeal seal{move_buckets(*group_, block, weights.flat.bytes(), options_.bucket_bytes, sending_->deadline)};
  group_->broadcast({&seal, sizeof seal}, 0, sending_->deadline.left());
  return {SenderDid::sent, {}, {}};
}

SenderStep WeightSender::collect() {
  const TransferAnswer mine;
  std::vector<TransferAnswer> answers(ranks_.size() + 1);
  {
    const Blocked blocked;
    group_->gather(&mine, answers.data(), sizeof mine, 0, sending_->deadline.left());
  }
  SenderStep result{SenderDid::delivered, {}, {}};
  {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const TransferAnswer& answer = answers[i + 1];
      Member* member = member_at(ranks_[i]);
      if (!member) continue;  // removed or admitted again before its answer came
      const PolicyVersion now{answer.epoch, answer.number};
      if (answer.status == TransferStatus::applied || answer.status == TransferStatus::same) {
        member->applied = now;
        member->applied_seq = sending_->seq;
      } else if (answer.status == TransferStatus::older) {
        set_aside(ranks_[i], "runs on version " + now.text() + ", newer than " + sending_->weights->version.text(),
                  result.lost);
      } else {
        set_aside(ranks_[i], "the checksum of version " + sending_->weights->version.text() + " did not match",
                  result.lost);
      }
      if (!result.lost.empty() && result.error.empty()) result.error = member->trouble;
    }
  }
  sending_.reset();
  if (!result.lost.empty()) {
    result.did = SenderDid::failed;
    group_.reset();
  }
  return result;
}

SenderStep WeightSender::fail(const TransferError& error) {
  group_.reset();
  sending_.reset();
  if (stop_.stop_requested()) return {SenderDid::stopped, {}, {}};
  const MutexLock lock(mutex_);
  if (error.kind() == TransferError::Kind::stopped) {  // a member was removed
    regroup_ = true;
    return {SenderDid::failed, {}, {}};
  }
  SenderStep result{SenderDid::failed, {}, error.what()};
  for (const int rank : error.ranks())
    if (rank >= 1 && static_cast<size_t>(rank) <= ranks_.size())
      set_aside(ranks_[static_cast<size_t>(rank) - 1], error.what(), result.lost);
  regroup_ = true;
  return result;
}

// The member that holds that rank; nullptr if it has been removed or admitted again since.
WeightSender::Member* WeightSender::member_at(const RankHolder& holder) {
  const auto found = members_.find(holder.inference_index);
  return found != members_.end() && found->second.admission == holder.admission ? &found->second : nullptr;
}

void WeightSender::set_aside(const RankHolder& holder, const std::string& trouble, std::vector<InferenceIndex>& lost) {
  Member* member = member_at(holder);
  if (!member) return;
  member->state = State::lost;
  member->trouble = trouble;
  lost.push_back(holder.inference_index);
  regroup_ = true;
}

std::vector<ReceiverReport> WeightSender::receivers() const {
  const MutexLock lock(mutex_);
  std::vector<ReceiverReport> result;
  for (const auto& [inference_index, member] : members_)
    result.push_back({inference_index, member.state, member.applied, published_ - member.applied_seq, member.trouble});
  return result;
}

uint64_t WeightSender::generation() const {
  const MutexLock lock(mutex_);
  return generation_;
}

uint64_t WeightSender::skipped() const {
  const MutexLock lock(mutex_);
  return skipped_;
}

}  // namespace troupe
