#include "actors/stored_units.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr size_t kWord = 64;
constexpr size_t kLeastSlots = 64;

// The entry of the unit with `place` units of the run before it.
size_t entry_at(const UnitRun& run, size_t place) {
  if (run.left == run.count) return run.first + place;
  size_t word = 0;
  for (size_t ones; place >= (ones = static_cast<size_t>(std::popcount(run.bits[word]))); ++word) place -= ones;
  uint64_t bits = run.bits[word];
  for (; place > 0; --place) bits &= bits - 1;  // without its lowest one
  return run.first + word * kWord + static_cast<size_t>(std::countr_zero(bits));
}

void each_of(const UnitRun& run, const std::function<void(const UnitPlace&)>& visit) {
  for (size_t i = 0; i < run.count; ++i)
    if ((run.bits[i / kWord] >> (i % kWord) & 1) != 0) visit({run.stored, run.first + i});
}

}  // namespace

void UnitQueue::add_to_tree(size_t slot, uint64_t difference) {
  for (size_t i = slot + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += difference;
}

// Frees the slots of runs without units. The tree has at least twice as many slots as there are runs, so that this is
// rare.
void UnitQueue::make_room() {
  if (runs_.size() + 1 < tree_.size()) return;
  std::erase(runs_, nullptr);
  tree_.assign(std::max(kLeastSlots, std::bit_ceil(2 * runs_.size())) + 1, 0);
  for (size_t slot = 0; slot < runs_.size(); ++slot) {
    runs_[slot]->slot = slot;
    tree_[slot + 1] += runs_[slot]->left;
  }
  for (size_t i = 1; i < tree_.size(); ++i)
    if (const size_t parent = i + (i & (~i + 1)); parent < tree_.size()) tree_[parent] += tree_[i];
}

UnitRun* UnitQueue::push(UnitRun run) {
  make_room();
  run.slot = runs_.size();
  run.left = run.count;
  run.bits.assign((run.count + kWord - 1) / kWord, ~uint64_t{0});
  if (run.count % kWord != 0) run.bits.back() = (uint64_t{1} << run.count % kWord) - 1;
  add_to_tree(run.slot, run.count);
  size_ += run.count;
  for (size_t i = run.first; i < run.first + run.count; ++i) samples_ += run.stored->units[i].samples;
  return runs_.emplace_back(std::make_unique<UnitRun>(std::move(run))).get();
}

void UnitQueue::remove(UnitRun& run, size_t entry) {
  const size_t bit = entry - run.first;
  run.bits[bit / kWord] &= ~(uint64_t{1} << bit % kWord);
  add_to_tree(run.slot, ~uint64_t{0});  // minus 1
  --size_;
  samples_ -= run.stored->units[entry].samples;
  if (--run.left == 0) runs_[run.slot].reset();
}

UnitPlace UnitQueue::at(uint64_t place) const {
  size_t slot = 0;  // slots before the one with the unit
  for (size_t step = std::bit_floor(tree_.size() - 1); step > 0; step /= 2) {
    if (slot + step >= tree_.size() || tree_[slot + step] > place) continue;
    slot += step;
    place -= tree_[slot];
  }
  const UnitRun& run = *runs_[slot];
  return {run.stored, entry_at(run, place)};
}

// `count` units of the same version, if that orders them.
void StoredUnits::add(const StoredRolloutPtr& stored, size_t first, size_t count) {
  const uint64_t key = by_age_ ? stored->units.at(first).oldest : 0;
  UnitRun* run = queues_[key].push({.stored = stored, .first = first, .count = count, .key = key});
  for (size_t i = first; i < first + count; ++i) {
    StoredUnit& unit = stored->units.at(i);
    TROUPE_CHECK(!unit.stored, i);
    unit.stored = true;
    unit.run = run;
    samples_ += unit.samples;
  }
  stored->in_storage += count;
}

void StoredUnits::enter(const StoredRolloutPtr& stored, PolicyVersion version) {
  stored->version = version;
  by_version_[version].insert(stored);
}

void StoredUnits::enter(const StoredRolloutPtr& stored) {
  PolicyVersion first = dated({stored, 0});
  for (size_t i = 1; i < stored->units.size(); ++i) first = std::min(first, dated({stored, i}));
  enter(stored, first);
}

size_t StoredUnits::rollouts() const {
  size_t count = 0;
  for (const auto& [version, rollouts] : by_version_) count += rollouts.size();
  return count;
}

void StoredUnits::add(const StoredRolloutPtr& stored) {
  const size_t units = stored->units.size();
  if (units == 0) return;
  enter(stored);
  if (!by_age_) return add(stored, 0, units);
  for (size_t i = 0; i < units; ++i) add(stored, i, 1);
}

void StoredUnits::add(const std::vector<StoredRolloutPtr>& stored,
                      const std::vector<std::pair<uint64_t, uint64_t>>& units) {
  for (size_t i = 0; i < units.size();) {
    const auto [rollout, first] = units[i];
    size_t count = 1;
    while (!by_age_ && i + count < units.size() && units[i + count] == std::pair(rollout, first + count)) ++count;
    add(stored.at(rollout), first, count);
    i += count;
  }
  for (const StoredRolloutPtr& one : stored)
    if (one->in_storage > 0) enter(one);
}

void StoredUnits::remove(const UnitPlace& place) {
  StoredUnit& unit = place.get();
  TROUPE_CHECK(unit.stored, place.entry);
  unit.stored = false;
  samples_ -= unit.samples;
  UnitRun* run = std::exchange(unit.run, nullptr);
  const auto queue = queues_.find(run->key);
  queue->second.remove(*run, place.entry);
  if (queue->second.size() == 0 && by_age_) queues_.erase(queue);
  if (--place.stored->in_storage > 0) return;
  const auto rollouts = by_version_.find(place.stored->version);
  if (rollouts == by_version_.end()) return;  // remove_older() looks at it
  rollouts->second.erase(place.stored);
  if (rollouts->second.empty()) by_version_.erase(rollouts);
}

UnitPlace StoredUnits::at(uint64_t place) const {
  for (const auto& [key, queue] : queues_) {
    if (place < queue.size()) return queue.at(place);
    place -= queue.size();
  }
  throw InvariantError("replay: no unit at this place");
}

uint64_t StoredUnits::size() const {
  uint64_t units = 0;
  for (const auto& [key, queue] : queues_) units += queue.size();
  return units;
}

uint64_t StoredUnits::samples_until(uint64_t oldest) const {
  uint64_t samples = 0;
  for (const auto& [key, queue] : queues_) {
    if (key > oldest) break;
    samples += queue.samples();
  }
  return samples;
}

// Looks only at rollouts with a stale unit, and at each of them as often as it has versions.
void StoredUnits::remove_older(const std::function<bool(PolicyVersion)>& is_stale,
                               const std::function<void(const UnitPlace&)>& drop) {
  while (!by_version_.empty() && is_stale(by_version_.begin()->first)) {
    const auto rollouts = std::move(by_version_.begin()->second);
    by_version_.erase(by_version_.begin());
    for (const StoredRolloutPtr& stored : rollouts) {
      std::optional<PolicyVersion> oldest;
      for (size_t i = 0; i < stored->units.size(); ++i) {
        const UnitPlace unit{stored, i};
        if (!unit.get().stored) continue;
        const PolicyVersion version = dated(unit);
        if (is_stale(version)) {
          remove(unit);
          drop(unit);
        } else if (!oldest || version < *oldest) {
          oldest = version;
        }
      }
      if (oldest) enter(stored, *oldest);
    }
  }
}

void StoredUnits::each(const std::function<void(const UnitPlace&)>& visit) const {
  for (const auto& [key, queue] : queues_)
    for (const auto& run : queue.runs())
      if (run) each_of(*run, visit);
}

void StoredUnits::clear() {
  each([](const UnitPlace& unit) {
    unit.get().stored = false;
    unit.get().run = nullptr;
    unit.stored->in_storage = 0;
  });
  queues_.clear();
  by_version_.clear();
  samples_ = 0;
}

}  // namespace troupe
