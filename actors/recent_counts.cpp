#include "actors/recent_counts.h"

#include <algorithm>

namespace troupe {

namespace {

constexpr std::chrono::seconds kRecent{10};
constexpr size_t kLeastUpdates = 10;

}  // namespace

RecentCounts::RecentCounts(const ReplayStart& start, Clock::time_point now) {
  produced_.add(now, start.ledger.produced);
  dropped_stale_.add(now, start.ledger.dropped_stale);
  dropped_full_.add(now, start.ledger.dropped_full);
  filtered_.add(now, start.ledger.filtered);
  env_failures_.add(now, start.totals.env_failures);
  for (Rate* batches : {&batches_full_, &batches_timeout_, &batches_all_waiting_}) batches->add(now, 0);
}

void RecentCounts::add(const UpdateMessage& update, Clock::time_point now) {
  updates_.push_back({now, update.wait_seconds, update.evaluation_wait_seconds, update.checkpoint_wait_seconds,
                      update.update_seconds});
  while (updates_.size() > kLeastUpdates && now - updates_.front().end > kRecent) updates_.pop_front();
}

RecentFigures RecentCounts::take(const StatsSnapshot& s, uint64_t env_failures, Clock::time_point now) {
  const auto grown = [&](Rate& rate, uint64_t count) {
    rate.add(now, count);
    return rate.grown();
  };
  RecentFigures result;
  result.produced = grown(produced_, s.ledger.produced);
  result.dropped_stale = grown(dropped_stale_, s.ledger.dropped_stale);
  result.dropped_full = grown(dropped_full_, s.ledger.dropped_full);
  result.filtered = grown(filtered_, s.ledger.filtered);
  result.env_failures = grown(env_failures_, env_failures);
  result.batches_full = grown(batches_full_, s.batches_full);
  result.batches_timeout = grown(batches_timeout_, s.batches_timeout);
  result.batches_all_waiting = grown(batches_all_waiting_, s.batches_all_waiting);
  if (updates_.empty()) return result;
  double wait = 0, evaluation_wait = 0, checkpoint_wait = 0, update = 0, longest = 0;
  for (const Update& each : updates_) longest = std::max(longest, each.update_seconds);
  // Long enough for some updates.
  const std::chrono::duration<double> window =
      std::max<std::chrono::duration<double>>(kRecent, std::chrono::duration<double>(3 * longest));
  for (const Update& each : updates_) {
    if (now - each.end > window) continue;
    wait += each.wait_seconds;
    evaluation_wait += each.evaluation_wait_seconds;
    checkpoint_wait += each.checkpoint_wait_seconds;
    update += each.update_seconds;
  }
  result.since_update = std::chrono::duration<double>(now - updates_.back().end).count();
  result.longest_update = longest;
  if (wait + update <= 0) return result;
  result.trainer_wait = wait / (wait + update);
  result.evaluation_wait = evaluation_wait / (wait + update);
  result.checkpoint_wait = checkpoint_wait / (wait + update);
  return result;
}

}  // namespace troupe
