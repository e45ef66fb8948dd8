#include "actors/receiver_table.h"

#include <algorithm>
#include <utility>

#include "actors/inference_counts.h"

namespace troupe {

namespace {

uint64_t versions_behind(PolicyVersion published, const std::optional<PolicyVersion>& applied) {
  return applied ? published.number - std::min(published.number, applied->number) : 0;
}

}  // namespace

// The entry of a receiver, created if it is new; nullptr when it gets none.
ReceiverTable::Receiver* ReceiverTable::find(InferenceIndex inference_index) {
  if (const auto found = receivers_.find(inference_index); found != receivers_.end()) return &found->second;
  if (earlier_ && inference_index <= earlier_->inference_index) return nullptr;
  return receivers_.size() < kMost || deterministic_ ? &receivers_[inference_index] : nullptr;
}

void ReceiverTable::add(const InferenceReport& report) {
  Receiver* receiver = find(report.inference_index);
  if (receiver == nullptr) return;
  heard_ = true;
  busy_us_ += busy_between(receiver->report, report);
  receiver->report = counts_alone(report);
}

bool ReceiverTable::add(const Applied& applied) {
  Receiver* receiver = find(applied.inference_index);
  return receiver != nullptr && std::exchange(receiver->applied, applied.version).has_value();
}

void ReceiverTable::add(const ReceiverGone& gone) {
  Receiver* receiver = find(gone.inference_index);
  if (receiver == nullptr) return;
  receiver->gone = true;
  const auto is_gone = [](const auto& entry) { return entry.second.gone; };
  if (deterministic_ || std::ranges::count_if(receivers_, is_gone) <= static_cast<std::ptrdiff_t>(kGone)) return;
  const auto oldest = std::ranges::find_if(receivers_, is_gone);
  if (!earlier_) earlier_.emplace();
  add_counts(*earlier_, oldest->second.report);
  earlier_->inference_index = std::max(earlier_->inference_index, oldest->first);
  receivers_.erase(oldest);
}

void ReceiverTable::fill(StatsSnapshot& s, PolicyVersion published) const {
  InferenceReport sum = earlier_.value_or(InferenceReport{});
  if (earlier_) s.rows_served[kEarlier] = earlier_->rows;
  for (const auto& [inference_index, receiver] : receivers_) {
    add_counts(sum, receiver.report);
    const std::string name = "inference " + std::to_string(inference_index);
    s.rows_served[name] = receiver.report.rows;
    if (!receiver.applied || receiver.gone) continue;
    ++s.inference_up;
    s.weights_behind[name] = versions_behind(published, receiver.applied);
  }
  s.batches_full = sum.full;
  s.batches_timeout = sum.timeout;
  s.batches_all_waiting = sum.all_waiting;
  s.batches_failed = sum.failed;
  s.mixed_answers = sum.mixed_answers;
  s.recomputed_tokens = sum.recomputed;
  s.history_tokens = sum.histories;
  s.reused_tokens = sum.reused;
  s.weights_waited_steps = sum.waited_steps;
  s.weights_waited_seconds = static_cast<double>(sum.weights_wait_us) / 1e6;
}

std::vector<std::string> ReceiverTable::behind(PolicyVersion published) {
  std::vector<std::string> lines;
  for (auto& [inference_index, receiver] : receivers_) {
    const uint64_t now = versions_behind(published, receiver.applied);
    const bool falls_back = now > receiver.behind_before || (now > 0 && receiver.applied == receiver.applied_before);
    receiver.strikes = falls_back && !receiver.gone ? receiver.strikes + 1 : 0;
    if (receiver.strikes >= kLooks)
      lines.push_back("inference " + std::to_string(inference_index) + " falls behind: it applied version " +
                      receiver.applied->text() + ", " + std::to_string(now) + " before the newest");
    receiver.behind_before = now;
    receiver.applied_before = receiver.applied;
  }
  return lines;
}

ReceiverTable::Saved ReceiverTable::save() const {
  Saved receivers;
  for (const auto& [inference_index, receiver] : receivers_) {
    receivers.emplace_back(receiver.report, receiver.gone);
    receivers.back().first.busy_us = receivers.back().first.weights_wait_us = 0;
  }
  return receivers;
}

void ReceiverTable::load(const Saved& receivers) {
  for (const auto& [report, gone] : receivers) {
    receivers_[report.inference_index].report = report;
    receivers_[report.inference_index].gone = gone;
  }
}

}  // namespace troupe
