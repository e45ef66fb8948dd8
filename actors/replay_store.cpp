#include "actors/replay_store.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "actors/experience/kinds.h"
#include "runtime/base/errors.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

namespace {

// replay.filter_groups leaves out this many super-batches in a row at most.
constexpr uint64_t kMostFiltered = 10;

SampleTokens count_of(const UnitPlace& unit) {
  const Rollout& rollout = *unit.stored->rollout;
  const RolloutUnit& counted = unit.get();
  return kind_of(rollout).count(rollout, &counted);
}

}  // namespace

ReplayStore::ReplayStore(const ReplayRules& rules, PolicyVersion first, uint64_t seed, Ledger ledger,
                         uint64_t env_steps, uint64_t uncounted)
    : rules_(rules),
      version_(first),
      rng_(derive_key(seed, "replay", first.epoch)),
      units_(rules.waits_for_late, rules.masks_late),
      ledger_(ledger),
      env_steps_(env_steps),
      uncounted_(uncounted) {
  // These samples waited in the process that wrote the checkpoint, and ended with it.
  ledger_.lost_in_crash += ledger_.waiting;
  ledger_.waiting = 0;
  trained_before_ = ledger_.trained;
  TROUPE_CHECK(rules_.super_batch > 0 && rules_.capacity >= rules_.super_batch, rules_.super_batch, rules_.capacity);
}

void ReplayStore::count(uint64_t samples, uint64_t env_steps, const Episodes& episodes) {
  ledger_.produced += samples;
  env_steps_ += env_steps;
  if (episodes.count() > 0) episodes_.push_back(episodes);
}

void ReplayStore::close() {
  TROUPE_CHECK(workers_.empty(), workers_.size());
  ledger_.left_over += std::exchange(ledger_.waiting, 0);
  units_.clear();
  handed_.clear();
  closed_ = true;
}

bool ReplayStore::push(RolloutPtr rollout) {
  const auto it = workers_.find(rollout->worker);
  if (it == workers_.end()) return false;
  std::vector<PartialRollout>& partial = it->second.partial;
  const auto reported = std::ranges::find(partial, rollout->group, &PartialRollout::group);
  if (reported != partial.end()) partial.erase(reported);
  take_credit(it->first, it->second, *rollout);
  count(rollout->samples + rollout->unscored + rollout->verifier_failed + rollout->baselines, rollout->env_steps,
        rollout->episodes);
  tokens_.produced += kind_of(*rollout).count(*rollout, nullptr);
  const bool alike = rollout->samples > 0 && kind_of(*rollout).without_spread(*rollout);
  if (kind_of(*rollout).words->tokens && rollout->samples > 1) {
    ++tokens_.groups;
    tokens_.alike += alike ? 1 : 0;
  }
  ledger_.unscored += rollout->unscored;
  ledger_.verifier_failed += rollout->verifier_failed;
  ledger_.baselines += rollout->baselines;
  if (rollout->samples == 0) return true;
  const bool may_filter = rules_.filter_groups && filtered_in_a_row_ < kMostFiltered * rules_.super_batch;
  if (may_filter && alike) {
    ledger_.filtered += rollout->samples;
    filtered_in_a_row_ += rollout->samples;
    return true;
  }
  if (rules_.reuse) evict_for(rollout->samples);
  if (units_.samples() + rollout->samples > rules_.capacity && units_.samples() >= rules_.super_batch) {
    ledger_.dropped_full += rollout->samples;
    return false;
  }
  store(rollout);
  return true;
}

void ReplayStore::store(const RolloutPtr& rollout) {
  ledger_.waiting += rollout->samples;
  const auto stored = std::make_shared<StoredRollout>();
  stored->rollout = rollout;
  for (const RolloutUnit& unit : units_of(*rollout, rules_.unit)) stored->units.push_back({unit});
  units_.add(stored);
}

// Whether the next super-batch would take units that are due after some that are promised, and the updates up to their
// due could then not take all of these.
bool ReplayStore::must_wait() const {
  if (!rules_.waits_for_late) return false;
  const auto lag = rules_.max_policy_lag;
  uint64_t promised = 0;
  for (const auto& [due, samples] : dues_) {
    promised += samples;
    const uint64_t updates = due - std::min(due, version_.number);  // that follow the next one
    if (promised > updates * rules_.super_batch && units_.samples_until(due - lag) < rules_.super_batch) return true;
  }
  return false;
}

void ReplayStore::retire(const StoredUnit& unit, uint64_t& state) {
  if (unit.trained || unit.in_flight > 0) return;
  ledger_.waiting -= unit.samples;
  state += unit.samples;
}

void ReplayStore::drop_stale() {
  const auto bound = rules_.max_policy_lag;
  units_.remove_older([&](PolicyVersion oldest) { return lag_between(oldest, version_) > bound; },
                      [&](const UnitPlace& unit) {
                        if (!unit.get().trained && unit.get().in_flight == 0) tokens_.dropped += count_of(unit);
                        retire(unit.get(), ledger_.dropped_stale);
                      });
}

// Removes the oldest units to make room. Units have different sizes, so they may not fill the capacity exactly; but
// together with the incoming samples they must still make a super-batch, or training would stop.
void ReplayStore::evict_for(uint64_t incoming) {
  while (!units_.empty() && units_.samples() + incoming > rules_.capacity) {
    const UnitPlace oldest = units_.front();
    if (units_.samples() + incoming < rules_.super_batch + oldest.get().samples) return;
    units_.remove(oldest);
    retire(oldest.get(), ledger_.dropped_full);
  }
}

std::vector<UnitPlace> ReplayStore::draw_oldest() {
  std::vector<UnitPlace> result;
  for (uint64_t samples = 0; samples < rules_.super_batch;) {
    result.push_back(units_.front());
    units_.remove(result.back());
    samples += result.back().get().samples;
  }
  return result;
}

std::vector<UnitPlace> ReplayStore::draw_uniform() {
  // Partial Fisher-Yates over positions: uniform without replacement. `moved` holds the positions whose number is
  // not their own.
  std::unordered_map<uint64_t, uint64_t> moved;
  const auto number_at = [&](uint64_t position) {
    const auto it = moved.find(position);
    return it == moved.end() ? position : it->second;
  };
  const uint64_t size = units_.size();
  const bool single = rules_.unit == UnitKind::sample;
  moved.reserve(single ? rules_.super_batch : 0);
  std::vector<UnitPlace> result;
  uint64_t samples = 0;
  for (uint64_t i = 0; samples < rules_.super_batch; ++i) {
    const uint64_t drawn = i + rng_.below(size - i);
    result.push_back(units_.at(number_at(drawn)));
    moved[drawn] = number_at(i);
    // Where a unit is known to be one sample, it is only read later: the memory of many is fetched at the same time.
    if (single) __builtin_prefetch(&result.back().get());
    samples += single ? 1 : result.back().get().samples;
  }
  return result;
}

SuperBatch ReplayStore::hand_out(std::vector<UnitPlace> units) {
  SuperBatch batch;
  batch.index = version_.number;
  batch.env_steps = env_steps_ + others_.env_steps;
  batch.least_version = rules_.least_version(batch.index);
  last_batch_out_ = batch.env_steps >= last_env_step_;
  for (const UnitPlace& place : units) {
    StoredUnit& unit = place.get();
    StoredRollout& stored = *place.stored;
    if (std::exchange(stored.batch, batch.index) != batch.index) {
      stored.part = batch.parts.size();
      batch.parts.push_back({stored.rollout, {}, rules_.unit});
    }
    batch.parts[stored.part].indices.push_back(unit.index);
    batch.samples += unit.samples;
    ++unit.uses;
    ++unit.in_flight;
  }
  for (RolloutUnits& part : batch.parts) std::ranges::sort(part.indices);
  if (rules_.reuse) renewal_uses_ = std::min(renewal_uses_ + batch.samples, rules_.capacity * planned_uses());
  handed_[batch.index] = std::move(units);
  filtered_in_a_row_ = 0;
  ++version_.number;
  return batch;
}

bool ReplayStore::ready(std::chrono::nanoseconds now) {
  drop_stale();
  if (units_.samples() < rules_.super_batch) return false;
  if (must_wait()) {
    if (!waits_since_) waits_since_ = now;
    return false;
  }
  if (waits_since_) late_wait_seconds_ += std::chrono::duration<double>(now - *waits_since_).count();
  waits_since_.reset();
  return true;
}

SuperBatch ReplayStore::draw() {
  if (!rules_.reuse) return hand_out(draw_oldest());
  SuperBatch batch = hand_out(draw_uniform());
  for (const UnitPlace& unit : handed_.at(batch.index))
    if (unit.get().uses >= rules_.max_reuse) units_.remove(unit);
  return batch;
}

std::vector<UnitPlace> ReplayStore::take_handed(uint64_t index) {
  const auto it = handed_.find(index);
  TROUPE_CHECK(it != handed_.end(), index);
  std::vector<UnitPlace> units = std::move(it->second);
  handed_.erase(it);
  for (const UnitPlace& unit : units) --unit.get().in_flight;
  return units;
}

void ReplayStore::trained(uint64_t index) {
  const uint64_t least = rules_.least_version(index);
  last_lags_.clear();
  for (const UnitPlace& unit : take_handed(index)) {
    StoredUnit& entry = unit.get();
    const Rollout& rollout = *unit.stored->rollout;
    const TokenSplit split = kind_of(rollout).split(rollout, entry, least);
    const uint64_t dropped = split.dropped.samples;
    if (entry.samples > dropped)
      last_lags_.emplace_back(index - std::max(entry.oldest, least), static_cast<uint32_t>(entry.samples - dropped));
    uses_total_ += entry.samples - dropped;
    if (entry.trained) continue;
    entry.trained = true;
    tokens_.trained += split.trained;
    tokens_.dropped += split.dropped;
    tokens_.masked += split.masked;
    ledger_.waiting -= entry.samples;
    ledger_.trained += entry.samples - dropped;
    ledger_.dropped_stale += dropped;
  }
}

void ReplayStore::failed(uint64_t index) {
  for (const UnitPlace& unit : take_handed(index)) {
    const StoredUnit& entry = unit.get();
    if (entry.trained || entry.stored || entry.in_flight > 0) continue;
    ledger_.waiting -= entry.samples;
    ledger_.lost_in_crash += entry.samples;
  }
}

uint64_t ReplayStore::count_waiting() const {
  uint64_t total = 0;
  units_.each([&](const UnitPlace& unit) { total += unit.get().trained ? 0 : unit.get().samples; });
  std::set<const StoredUnit*> handed_only;  // a unit may be in several batches
  for (const auto& [index, units] : handed_)
    for (const UnitPlace& unit : units)
      if (!unit.get().stored && !unit.get().trained && handed_only.insert(&unit.get()).second)
        total += unit.get().samples;
  return total;
}

}  // namespace troupe
