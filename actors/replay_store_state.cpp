// The state of a ReplayStore as bytes, for deterministic runs.

#include "actors/messages.h"
#include "actors/replay_store.h"
#include "actors/state_bytes.h"
#include "runtime/base/errors.h"

namespace troupe {

std::string ReplayStore::save() const {
  TROUPE_CHECK(credits_outstanding() == 0 && handed_.empty(), credits_outstanding(), handed_.size());
  std::vector<StoredPtr> stored;  // each rollout once, in the order of their first units
  std::map<const Stored*, uint64_t> position;
  std::vector<std::pair<uint64_t, uint64_t>> units;
  for (const Unit& unit : units_) {
    const auto [it, added] = position.try_emplace(unit.stored.get(), stored.size());
    if (added) stored.push_back(unit.stored);
    units.emplace_back(it->second, unit.entry);
  }
  std::vector<RolloutMessage> rollouts;
  std::vector<std::vector<Entry>> entries;
  for (const StoredPtr& one : stored) {
    rollouts.push_back({one->rollout});
    entries.push_back(one->entries);
  }
  return to_bytes(version_, rng_.key(), rng_.position(), last_granted_, ledger_, env_steps_, uses_total_, renewal_uses_,
                  stored_samples_, answers_, filtered_in_a_row_, rollouts, entries, units);
}

void ReplayStore::load(const std::string& bytes) {
  uint64_t key = 0, position = 0;
  std::vector<RolloutMessage> rollouts;
  std::vector<std::vector<Entry>> entries;
  std::vector<std::pair<uint64_t, uint64_t>> units;
  trained_before_ = 0;
  from_bytes(bytes, "replay", version_, key, position, last_granted_, ledger_, env_steps_, uses_total_, renewal_uses_,
             stored_samples_, answers_, filtered_in_a_row_, rollouts, entries, units);
  rng_ = Rng::at(key, position);
  std::vector<StoredPtr> stored;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    stored.push_back(std::make_shared<Stored>());
    *stored.back() = {rollouts[i].rollout, entries.at(i)};
  }
  units_.clear();
  for (const auto& [rollout, entry] : units) {
    TROUPE_CHECK(entry < entries.at(rollout).size(), rollout, entry);
    units_.push_back({stored.at(rollout), entry});
  }
}

}  // namespace troupe
