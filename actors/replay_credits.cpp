// The part of ReplayStore that knows the workers and grants credits.

#include <algorithm>
#include <utility>

#include "actors/replay_store.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr uint32_t kCreditsPerGroup = 2;  // one rollout in progress, and one that can start without a round trip
// Upper bound of max_reuse when credits are granted: without it, a full buffer with a large max_reuse would get no new
// samples for very long.
constexpr uint64_t kPlannedUses = 64;
// Updates after which replay may hold one more super-batch. At first it holds at most two. Otherwise a run with a large
// lag cap would make most of its samples with its first weights, or pass stop.env_steps before it has trained.
constexpr uint64_t kUpdatesPerSuperBatch = 4;

// A credit for `samples` with this due is used or gone.
void forget(std::map<uint64_t, uint64_t>& dues, uint64_t due, uint64_t samples) {
  const auto found = dues.find(due);
  found->second -= samples;
  if (found->second == 0) dues.erase(found);
}

}  // namespace

void ReplayStore::join(uint64_t worker, uint32_t groups, uint64_t samples_per_rollout) {
  TROUPE_CHECK(groups > 0 && samples_per_rollout > 0, worker, groups, samples_per_rollout);
  leave(worker);
  workers_[worker] = Worker{groups, samples_per_rollout, 0, 0, {}, false, {}};
  may_get_credits_.insert(worker);
  sizes_.insert(samples_per_rollout);
}

void ReplayStore::leave(uint64_t worker, bool in_order) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  const Worker& gone = it->second;
  uint64_t reported = 0;
  for (const PartialRollout& partial : gone.partial) {
    count(partial.samples, partial.env_steps, partial.episodes);
    reported += partial.samples;
  }
  (in_order ? ledger_.left_over : ledger_.lost_in_crash) += reported;
  const uint64_t promised = gone.credits * gone.samples_per_rollout;
  const uint64_t possible = (gone.credits + gone.revoked) * (gone.samples_per_rollout + baselines_per_rollout_);
  if (!gone.last_report) uncounted_ += possible - std::min(possible, reported);
  revoked_ -= gone.revoked;
  credits_ -= gone.credits;
  promised_ -= promised;
  may_get_credits_.erase(worker);
  sizes_.extract(gone.samples_per_rollout);
  for (const uint64_t due : gone.dues) forget(dues_, due, gone.samples_per_rollout);
  workers_.erase(it);
}

void ReplayStore::progress(uint64_t worker, std::vector<PartialRollout> partial, bool last) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  it->second.partial = std::move(partial);
  it->second.last_report = last;
}

bool ReplayStore::applied(InferenceIndex inference_index, PolicyVersion version) {
  const auto known = receivers_.find(inference_index);
  if (known != receivers_.end() && version < known->second) return false;
  receivers_[inference_index] = version;
  return true;
}

void ReplayStore::receiver_gone(InferenceIndex inference_index) { receivers_.erase(inference_index); }

std::optional<uint64_t> ReplayStore::applied_number() const {
  std::optional<uint64_t> smallest;
  for (const auto& [inference_index, version] : receivers_) {
    if (version.epoch != version_.epoch) return std::nullopt;
    if (!smallest || version.number < *smallest) smallest = version.number;
  }
  return smallest;
}

void ReplayStore::stop_at(uint64_t env_steps, uint64_t steps_per_sample) {
  last_env_step_ = env_steps;
  steps_per_sample_ = steps_per_sample;
}

uint64_t ReplayStore::room() const {
  return std::min(rules_.capacity, (2 + version_.number / kUpdatesPerSuperBatch) * rules_.super_batch);
}

uint64_t ReplayStore::planned_uses() const { return std::min(rules_.max_reuse, kPlannedUses); }

bool ReplayStore::may_grant(uint64_t samples) const {
  const std::optional<uint64_t> served = applied_number();
  if (!served || last_batch_out_) return false;
  const uint64_t promised = promised_;
  const uint64_t queued = units_.samples() + promised;
  const uint64_t last_step = env_steps_ + others_.env_steps + (promised + others_.promised) * steps_per_sample_;
  if (queued >= rules_.super_batch && last_step >= last_env_step_) return false;
  const bool fits = queued + samples <= room();
  if (rules_.reuse) return fits || queued < rules_.super_batch || renewal_uses_ >= samples * planned_uses();
  const auto bound = rules_.max_policy_lag;
  const uint64_t last_use = version_.number + (queued + samples - 1) / rules_.super_batch;
  if (fits && last_use <= *served + bound) return true;
  // Failed rows make fewer samples than their credits promised, and rollouts may not fill super-batches exactly. If a
  // super-batch lacks only these samples, grant more: the trainer would wait forever. What is left of such a rollout
  // may be dropped. Where nothing should be, the newest weights are awaited first: then the rule above may grant one.
  if (rules_.waits_for_late && *served < version_.number) return false;
  const uint64_t first_use = version_.number + queued / rules_.super_batch;
  return promised == 0 && units_.samples() < rules_.super_batch && first_use <= *served + bound;
}

// The worker that may get the next credit: round robin, starting after the one that got the last.
ReplayStore::Workers::iterator ReplayStore::next_in_turn() {
  if (may_get_credits_.empty() || !may_grant(*sizes_.begin())) return workers_.end();  // none at all
  auto id = may_get_credits_.upper_bound(last_granted_);
  for (size_t i = 0; i < may_get_credits_.size(); ++i, ++id) {
    if (id == may_get_credits_.end()) id = may_get_credits_.begin();
    if (const auto worker = workers_.find(*id); may_grant(worker->second.samples_per_rollout)) return worker;
  }
  return workers_.end();
}

std::vector<CreditGrant> ReplayStore::grant() {
  std::map<uint64_t, uint32_t> granted;
  for (auto next = next_in_turn(); next != workers_.end(); next = next_in_turn()) {
    auto& [id, worker] = *next;
    const uint64_t due = *applied_number() + rules_.max_policy_lag;
    worker.dues.insert(due);
    dues_[due] += worker.samples_per_rollout;
    ++credits_;
    promised_ += worker.samples_per_rollout;
    if (++worker.credits == worker.groups * kCreditsPerGroup) may_get_credits_.erase(id);
    renewal_uses_ -= std::min(renewal_uses_, worker.samples_per_rollout * planned_uses());
    ++granted[id];
    last_granted_ = id;
  }
  std::vector<CreditGrant> result;
  for (const auto& [id, count] : granted) result.push_back({id, count});
  return result;
}

// Which of the worker's credits a rollout was made with is not known, but its weights are no older than that credit
// requires. So the credit with the latest due that fits is taken.
void ReplayStore::take_credit(uint64_t id, Worker& worker, const Rollout& rollout) {
  if (worker.revoked > 0) {
    --revoked_;
    if (--worker.revoked == 0) may_get_credits_.insert(id);
    return;
  }
  if (worker.credits == 0) return;
  --worker.credits;
  --credits_;
  promised_ -= worker.samples_per_rollout;
  may_get_credits_.insert(id);
  const auto later = worker.dues.upper_bound(rollout.oldest + rules_.max_policy_lag);
  const auto taken = later == worker.dues.begin() ? later : std::prev(later);
  forget(dues_, *taken, worker.samples_per_rollout);
  worker.dues.erase(taken);
}

uint32_t ReplayStore::revoke(uint64_t id) {
  Worker& worker = workers_.at(id);
  const uint32_t count = std::exchange(worker.credits, 0);
  worker.revoked += count;
  revoked_ += count;
  credits_ -= count;
  promised_ -= count * worker.samples_per_rollout;
  for (const uint64_t due : std::exchange(worker.dues, {})) forget(dues_, due, worker.samples_per_rollout);
  if (worker.revoked > 0) may_get_credits_.erase(id);
  return count;
}

uint32_t ReplayStore::credits_of(uint64_t id) const {
  const auto it = workers_.find(id);
  return it == workers_.end() ? 0 : it->second.credits;
}

bool ReplayStore::holds_credits(uint64_t id) const {
  const auto it = workers_.find(id);
  return it != workers_.end() && it->second.credits + it->second.revoked > 0;
}

}  // namespace troupe
