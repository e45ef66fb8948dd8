#pragma once
// StoredUnits: the units that replay may hand out, in order, with access by place. Adding, removing and finding a unit
// take a time that does not depend on how many there are (more exactly, on the logarithm of the number of rollouts).
// Owned by a ReplayStore; one thread.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "models/experience/rollout_units.h"
#include "runtime/base/version.h"

namespace troupe {

struct UnitRun;

struct StoredUnit : RolloutUnit {
  uint32_t uses = 0;       // batches it was handed out in
  uint32_t in_flight = 0;  // of those, the ones not yet trained or failed
  bool trained = false;
  bool stored = false;     // one of the StoredUnits; changed by add() and remove() there
  UnitRun* run = nullptr;  // where, while `stored`

  template <class I> friend typename I::result_type inspect(I& f, StoredUnit& x) {
    return f(x.index, x.samples, x.oldest, x.newest, x.uses, x.trained, x.stored);
  }
};

struct StoredRollout {
  RolloutPtr rollout;
  std::vector<StoredUnit> units;
  size_t in_storage = 0;  // units that are stored
  PolicyVersion version;  // under which StoredUnits finds it, while some are
  // The batch in which units of it were handed out last, and its part there.
  uint64_t batch = std::numeric_limits<uint64_t>::max();
  size_t part = 0;
};

using StoredRolloutPtr = std::shared_ptr<StoredRollout>;

struct UnitPlace {  // a unit of a rollout
  StoredRolloutPtr stored;
  size_t entry = 0;
  StoredUnit& get() const { return stored->units[entry]; }
  PolicyVersion oldest() const { return {stored->rollout->epoch, get().oldest}; }
  PolicyVersion newest() const { return {stored->rollout->epoch, get().newest}; }
};

// Units that follow each other both in a rollout and in the order of all: a bit for each that is still there.
struct UnitRun {
  StoredRolloutPtr stored;
  size_t first = 0, count = 0;  // entries of the rollout
  size_t left = 0;
  std::vector<uint64_t> bits;
  uint64_t key = 0;  // of the queue that it is in
  size_t slot = 0;   // there
};

// Runs of units, first in, first out, with access by place: a Fenwick tree (Fenwick, "A New Data Structure for
// Cumulative Frequency Tables", 1994) counts the units of each run.
class UnitQueue {
 public:
  UnitRun* push(UnitRun run);
  void remove(UnitRun& run, size_t entry);
  // The unit with `place` units before it. Must exist.
  UnitPlace at(uint64_t place) const;
  uint64_t size() const { return size_; }
  uint64_t samples() const { return samples_; }
  const std::vector<std::unique_ptr<UnitRun>>& runs() const { return runs_; }  // null where one has no unit left

 private:
  void add_to_tree(size_t slot, uint64_t difference);
  void make_room();

  std::vector<std::unique_ptr<UnitRun>> runs_;  // by slot
  std::vector<uint64_t> tree_;                  // from 1; of a power of two of slots
  uint64_t size_ = 0, samples_ = 0;             // of all units
};

class StoredUnits {
 public:
  // In the order of arrival or, if `by_age`, of the oldest version that made them, and among equals of arrival.
  // A unit is stale when the oldest version that made it is or, if `until_newest`, when the newest is.
  explicit StoredUnits(bool by_age, bool until_newest = false) : by_age_(by_age), until_newest_(until_newest) {}

  // Adds all units of a rollout.
  void add(const StoredRolloutPtr& stored);
  // Adds these units of these rollouts, given as pairs (rollout, unit), in the order in which each() named them.
  void add(const std::vector<StoredRolloutPtr>& stored, const std::vector<std::pair<uint64_t, uint64_t>>& units);
  void remove(const UnitPlace& unit);
  UnitPlace at(uint64_t place) const;
  UnitPlace front() const { return at(0); }
  uint64_t size() const;
  bool empty() const { return size() == 0; }
  uint64_t samples() const { return samples_; }
  // `by_age`: samples of the units whose oldest version has at most this number.
  uint64_t samples_until(uint64_t oldest) const;
  // Removes all units that `is_stale` says are stale, by that version, and calls `drop` for each. Every version before
  // a stale one must be stale too.
  void remove_older(const std::function<bool(PolicyVersion)>& is_stale,
                    const std::function<void(const UnitPlace&)>& drop);
  // Each unit, in order. Takes time in proportion to their number.
  void each(const std::function<void(const UnitPlace&)>& visit) const;
  void clear();
  // Rollouts with a stored unit.
  size_t rollouts() const;

 private:
  void add(const StoredRolloutPtr& stored, size_t first, size_t count);
  // Adds it to by_version_.
  void enter(const StoredRolloutPtr& stored);
  void enter(const StoredRolloutPtr& stored, PolicyVersion version);
  // The version that decides whether the unit is stale.
  PolicyVersion dated(const UnitPlace& unit) const { return until_newest_ ? unit.newest() : unit.oldest(); }

  bool by_age_, until_newest_;
  std::map<uint64_t, UnitQueue> queues_;  // by oldest version or, in the order of arrival, only one
  uint64_t samples_ = 0;
  // Rollouts with stored units, by the oldest version that decides about one that they had when they were last looked
  // at.
  std::map<PolicyVersion, std::unordered_set<StoredRolloutPtr>> by_version_;
};

}  // namespace troupe
