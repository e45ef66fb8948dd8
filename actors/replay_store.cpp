#include "actors/replay_store.h"

#include <algorithm>

#include "actors/answer_figures.h"
#include "actors/config/replay_capacity.h"
#include "runtime/base/errors.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

namespace {

constexpr uint32_t kCreditsPerGroup = 2;  // one rollout in progress, and one that can start without a round trip
// Upper bound of max_reuse when credits are granted: without it, a full buffer with a large max_reuse would get no new
// samples for very long.
constexpr uint64_t kPlannedUses = 64;
// Updates after which replay may hold one more super-batch. At first it holds at most two. Otherwise a run with a large
// lag cap would make most of its samples with its first weights, or pass stop.env_steps before it has trained.
constexpr uint64_t kUpdatesPerSuperBatch = 4;

// replay.filter_groups leaves out this many super-batches in a row at most.
constexpr uint64_t kMostFiltered = 10;

}  // namespace

ReplayStore::ReplayStore(const ReplayConfig& config, uint64_t super_batch, PolicyVersion first, uint64_t seed,
                         Ledger ledger, uint64_t env_steps, uint64_t uncounted)
    : config_(config),
      kind_(unit_kind(config.draw)),
      super_batch_(super_batch),
      capacity_(replay_capacity(config, super_batch)),
      version_(first),
      rng_(derive_key(seed, "replay", first.epoch)),
      ledger_(ledger),
      env_steps_(env_steps),
      uncounted_(uncounted) {
  // These samples waited in the process that wrote the checkpoint, and ended with it.
  ledger_.lost_in_crash += ledger_.waiting;
  ledger_.waiting = 0;
  trained_before_ = ledger_.trained;
  TROUPE_CHECK(super_batch_ > 0 && capacity_ >= super_batch_, super_batch_, capacity_);
}

void ReplayStore::join(uint64_t worker, uint32_t groups, uint64_t samples_per_rollout) {
  TROUPE_CHECK(groups > 0 && samples_per_rollout > 0, worker, groups, samples_per_rollout);
  leave(worker);
  workers_[worker] = Worker{groups, samples_per_rollout, 0, {}, false, {}};
}

void ReplayStore::count(uint64_t samples, uint64_t env_steps, const Episodes& episodes) {
  ledger_.produced += samples;
  env_steps_ += env_steps;
  if (episodes.count() > 0) episodes_.push_back(episodes);
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
  if (!gone.last_report) uncounted_ += promised - std::min(promised, reported);
  workers_.erase(it);
}

void ReplayStore::progress(uint64_t worker, std::vector<PartialRollout> partial, bool last) {
  const auto it = workers_.find(worker);
  if (it == workers_.end()) return;
  it->second.partial = std::move(partial);
  it->second.last_report = last;
}

void ReplayStore::close() {
  TROUPE_CHECK(workers_.empty(), workers_.size());
  ledger_.left_over += std::exchange(ledger_.waiting, 0);
  units_.clear();
  handed_.clear();
  stored_samples_ = 0;
  closed_ = true;
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

uint64_t ReplayStore::credits_outstanding() const {
  uint64_t total = 0;
  for (const auto& [id, worker] : workers_) total += worker.credits;
  return total;
}

uint64_t ReplayStore::samples_promised() const {
  uint64_t total = 0;
  for (const auto& [id, worker] : workers_) total += worker.credits * worker.samples_per_rollout;
  return total;
}

void ReplayStore::stop_at(uint64_t env_steps, uint64_t steps_per_sample) {
  last_env_step_ = env_steps;
  steps_per_sample_ = steps_per_sample;
}

uint64_t ReplayStore::room() const {
  return std::min(capacity_, (2 + version_.number / kUpdatesPerSuperBatch) * super_batch_);
}

uint64_t ReplayStore::planned_uses() const { return std::min(static_cast<uint64_t>(config_.max_reuse), kPlannedUses); }

bool ReplayStore::may_grant(uint64_t samples) const {
  const std::optional<uint64_t> served = applied_number();
  if (!served || last_batch_out_) return false;
  const uint64_t promised = samples_promised();
  const uint64_t queued = stored_samples_ + promised;
  if (queued >= super_batch_ && env_steps_ + promised * steps_per_sample_ >= last_env_step_) return false;
  const bool fits = queued + samples <= room();
  if (config_.mode == "reuse") return fits || queued < super_batch_ || renewal_uses_ >= samples * planned_uses();
  const auto bound = static_cast<uint64_t>(config_.max_policy_lag);
  const uint64_t last_use = version_.number + (queued + samples - 1) / super_batch_;
  if (fits && last_use <= *served + bound) return true;
  // Failed rows make fewer samples than their credits promised. If a super-batch lacks only these, grant more: the
  // trainer would wait forever.
  const uint64_t first_use = version_.number + queued / super_batch_;
  return promised == 0 && stored_samples_ < super_batch_ && first_use <= *served + bound;
}

std::vector<CreditGrant> ReplayStore::grant() {
  std::map<uint64_t, uint32_t> granted;
  // Round robin, starting after the worker that got the last credit, until no worker may get another.
  for (bool any = true; any && !workers_.empty();) {
    any = false;
    auto it = workers_.upper_bound(last_granted_);
    for (size_t i = 0; i < workers_.size(); ++i, ++it) {
      if (it == workers_.end()) it = workers_.begin();
      auto& [id, worker] = *it;
      if (worker.credits >= worker.groups * kCreditsPerGroup || !may_grant(worker.samples_per_rollout)) continue;
      ++worker.credits;
      worker.dues.insert(*applied_number() + static_cast<uint64_t>(config_.max_policy_lag));
      renewal_uses_ -= std::min(renewal_uses_, worker.samples_per_rollout * planned_uses());
      ++granted[id];
      last_granted_ = id;
      any = true;
      break;
    }
  }
  std::vector<CreditGrant> result;
  for (const auto& [id, count] : granted) result.push_back({id, count});
  return result;
}

bool ReplayStore::push(RolloutPtr rollout) {
  const auto it = workers_.find(rollout->worker);
  if (it == workers_.end()) return false;
  std::vector<PartialRollout>& partial = it->second.partial;
  const auto reported = std::ranges::find(partial, rollout->group, &PartialRollout::group);
  if (reported != partial.end()) partial.erase(reported);
  take_credit(it->second, *rollout);
  count(rollout->samples, rollout->env_steps, rollout->episodes);
  count_produced(*rollout, answers_);
  if (config_.mode == "reuse") evict_for(rollout->samples);
  if (stored_samples_ + rollout->samples > capacity_ && stored_samples_ >= super_batch_) {
    ledger_.dropped_full += rollout->samples;
    return false;
  }
  if (config_.filter_groups && filtered_in_a_row_ < kMostFiltered * super_batch_ && without_spread(*rollout)) {
    ledger_.filtered += rollout->samples;
    filtered_in_a_row_ += rollout->samples;
    return true;
  }
  store(rollout);
  return true;
}

void ReplayStore::store(const RolloutPtr& rollout) {
  ledger_.waiting += rollout->samples;
  auto stored = std::make_shared<Stored>();
  stored->rollout = rollout;
  for (const RolloutUnit& unit : units_of(*rollout, kind_)) {
    stored->entries.push_back({unit});
    stored_samples_ += unit.samples;
    const auto oldest = [](const Unit& other) { return other.get().oldest; };
    const auto place =
        config_.late == "wait" ? std::ranges::upper_bound(units_, unit.oldest, {}, oldest) : units_.end();
    units_.insert(place, {stored, stored->entries.size() - 1});
  }
}

// Which of the worker's credits a rollout was made with is not known, but its weights are no older than that credit
// requires. So the credit with the latest due that fits is taken.
void ReplayStore::take_credit(Worker& worker, const Rollout& rollout) {
  if (worker.credits == 0) return;
  --worker.credits;
  const auto later = worker.dues.upper_bound(rollout.oldest + static_cast<uint64_t>(config_.max_policy_lag));
  worker.dues.erase(later == worker.dues.begin() ? later : std::prev(later));
}

bool ReplayStore::must_wait() const {
  if (config_.late != "wait" || config_.mode != "consume_once") return false;
  return std::ranges::any_of(workers_, [&](const auto& entry) {
    const std::multiset<uint64_t>& dues = entry.second.dues;
    return !dues.empty() && *dues.begin() <= version_.number;
  });
}

uint64_t ReplayStore::lag_at_next(const Unit& unit) const {
  return lag_between({unit.stored->rollout->epoch, unit.get().oldest}, version_);
}

void ReplayStore::retire(Entry& entry, uint64_t& state) {
  entry.stored = false;
  stored_samples_ -= entry.samples;
  if (entry.trained || entry.in_flight > 0) return;
  ledger_.waiting -= entry.samples;
  state += entry.samples;
}

void ReplayStore::drop_stale() {
  const auto bound = static_cast<uint64_t>(config_.max_policy_lag);
  std::erase_if(units_, [&](const Unit& unit) {
    if (lag_at_next(unit) <= bound) return false;
    if (!unit.get().trained && unit.get().in_flight == 0)
      count_answers(*unit.stored->rollout, unit.get(), answers_.dropped, answers_.dropped_tokens);
    retire(unit.get(), ledger_.dropped_stale);
    return true;
  });
}

// Removes the oldest units to make room. Units have different sizes, so they may not fill the capacity exactly; but
// together with the incoming samples they must still make a super-batch, or training would stop.
void ReplayStore::evict_for(uint64_t incoming) {
  while (!units_.empty() && stored_samples_ + incoming > capacity_ &&
         stored_samples_ + incoming >= super_batch_ + units_.front().get().samples) {
    retire(units_.front().get(), ledger_.dropped_full);
    units_.pop_front();
  }
}

std::vector<ReplayStore::Unit> ReplayStore::draw_oldest() {
  std::vector<Unit> result;
  for (uint64_t samples = 0; samples < super_batch_;) {
    const Unit unit = units_.front();
    units_.pop_front();
    unit.get().stored = false;
    stored_samples_ -= unit.get().samples;
    samples += unit.get().samples;
    result.push_back(unit);
  }
  return result;
}

std::vector<ReplayStore::Unit> ReplayStore::draw_uniform() {
  // Partial Fisher-Yates over positions: uniform without replacement.
  std::vector<size_t> order(units_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<Unit> result;
  uint64_t samples = 0;
  for (size_t i = 0; samples < super_batch_; ++i) {
    std::swap(order[i], order[i + rng_.below(order.size() - i)]);
    result.push_back(units_[order[i]]);
    samples += result.back().get().samples;
  }
  return result;
}

SuperBatch ReplayStore::hand_out(const std::vector<Unit>& units) {
  SuperBatch batch;
  batch.index = version_.number;
  batch.env_steps = env_steps_;
  last_batch_out_ = env_steps_ >= last_env_step_;
  last_lags_.clear();
  std::map<const Rollout*, size_t> part_of;
  for (const Unit& unit : units) {
    Entry& entry = unit.get();
    const auto [it, added] = part_of.try_emplace(unit.stored->rollout.get(), batch.parts.size());
    if (added) batch.parts.push_back({unit.stored->rollout, {}, kind_});
    batch.parts[it->second].indices.push_back(entry.index);
    batch.samples += entry.samples;
    last_lags_.emplace_back(lag_at_next(unit), entry.samples);
    ++entry.uses;
    ++entry.in_flight;
  }
  for (RolloutUnits& part : batch.parts) std::ranges::sort(part.indices);
  if (config_.mode == "reuse") renewal_uses_ = std::min(renewal_uses_ + batch.samples, capacity_ * planned_uses());
  handed_[batch.index] = units;
  filtered_in_a_row_ = 0;
  ++version_.number;
  return batch;
}

std::optional<SuperBatch> ReplayStore::sample(std::chrono::nanoseconds now) {
  drop_stale();
  if (stored_samples_ < super_batch_) return std::nullopt;
  if (must_wait()) {
    if (!waits_since_) waits_since_ = now;
    return std::nullopt;
  }
  if (waits_since_) answers_.late_wait_seconds += std::chrono::duration<double>(now - *waits_since_).count();
  waits_since_.reset();
  if (config_.mode == "consume_once") return hand_out(draw_oldest());
  SuperBatch batch = hand_out(draw_uniform());
  const auto max_uses = static_cast<uint32_t>(config_.max_reuse);
  std::erase_if(units_, [&](const Unit& unit) {
    if (unit.get().uses < max_uses) return false;
    unit.get().stored = false;
    stored_samples_ -= unit.get().samples;
    return true;
  });
  return batch;
}

std::vector<ReplayStore::Unit> ReplayStore::take_handed(uint64_t index) {
  const auto it = handed_.find(index);
  TROUPE_CHECK(it != handed_.end(), index);
  std::vector<Unit> units = std::move(it->second);
  handed_.erase(it);
  for (const Unit& unit : units) --unit.get().in_flight;
  return units;
}

void ReplayStore::trained(uint64_t index) {
  for (const Unit& unit : take_handed(index)) {
    Entry& entry = unit.get();
    uses_total_ += entry.samples;
    if (entry.trained) continue;
    entry.trained = true;
    count_answers(*unit.stored->rollout, entry, answers_.trained, answers_.trained_tokens);
    ledger_.waiting -= entry.samples;
    ledger_.trained += entry.samples;
  }
}

void ReplayStore::failed(uint64_t index) {
  for (const Unit& unit : take_handed(index)) {
    const Entry& entry = unit.get();
    if (entry.trained || entry.stored || entry.in_flight > 0) continue;
    ledger_.waiting -= entry.samples;
    ledger_.lost_in_crash += entry.samples;
  }
}

uint64_t ReplayStore::count_waiting() const {
  std::map<const Entry*, uint32_t> untrained;
  for (const Unit& unit : units_)
    if (!unit.get().trained) untrained[&unit.get()] = unit.get().samples;
  for (const auto& [index, units] : handed_)
    for (const Unit& unit : units)
      if (!unit.get().trained) untrained[&unit.get()] = unit.get().samples;
  uint64_t total = 0;
  for (const auto& [entry, samples] : untrained) total += samples;
  return total;
}

double ReplayStore::mean_reuse() const {
  const uint64_t trained = ledger_.trained - trained_before_;
  return trained == 0 ? kUnknown : static_cast<double>(uses_total_) / static_cast<double>(trained);
}

}  // namespace troupe
