// The state of a ReplayStore as bytes, for deterministic runs.

#include "actors/experience/common/state_bytes.h"
#include "actors/messages.h"
#include "actors/replay_store.h"
#include "runtime/base/errors.h"

namespace troupe {

std::string ReplayStore::save() const {
  TROUPE_CHECK(credits_outstanding() == 0 && handed_.empty(), credits_outstanding(), handed_.size());
  std::vector<StoredRolloutPtr> stored;  // each rollout once, in the order of their first units
  std::map<const StoredRollout*, uint64_t> position;
  std::vector<std::pair<uint64_t, uint64_t>> units;
  units_.each([&](const UnitPlace& unit) {
    const auto [it, added] = position.try_emplace(unit.stored.get(), stored.size());
    if (added) stored.push_back(unit.stored);
    units.emplace_back(it->second, unit.entry);
  });
  std::vector<RolloutMessage> rollouts;
  std::vector<std::vector<StoredUnit>> entries;
  for (const StoredRolloutPtr& one : stored) {
    rollouts.push_back({one->rollout});
    entries.push_back(one->units);
  }
  return to_bytes(version_, rng_.key(), rng_.position(), last_granted_, ledger_, env_steps_, uses_total_, renewal_uses_,
                  units_.samples(), tokens_, filtered_in_a_row_, rollouts, entries, units);
}

void ReplayStore::load(const std::string& bytes) {
  uint64_t key = 0, position = 0, samples = 0;
  std::vector<RolloutMessage> rollouts;
  std::vector<std::vector<StoredUnit>> entries;
  std::vector<std::pair<uint64_t, uint64_t>> units;
  trained_before_ = 0;
  from_bytes(bytes, "replay", version_, key, position, last_granted_, ledger_, env_steps_, uses_total_, renewal_uses_,
             samples, tokens_, filtered_in_a_row_, rollouts, entries, units);
  rng_ = Rng::at(key, position);
  std::vector<StoredRolloutPtr> stored;
  for (size_t i = 0; i < rollouts.size(); ++i) {
    stored.push_back(std::make_shared<StoredRollout>());
    stored.back()->rollout = rollouts[i].rollout;
    stored.back()->units = entries.at(i);
    for (StoredUnit& unit : stored.back()->units) unit.stored = false;
  }
  units_.clear();
  units_.add(stored, units);
  TROUPE_CHECK(units_.samples() == samples, units_.samples(), samples);
}

}  // namespace troupe
