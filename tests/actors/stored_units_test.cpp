#include "actors/stored_units.h"

#include <algorithm>
#include <limits>

#include "runtime/base/rng.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Place = std::pair<const StoredRollout*, size_t>;

// What StoredUnits does, with a plain list.
struct Reference {
  struct Item {
    Place place;
    PolicyVersion oldest, newest;
    uint32_t samples;
  };
  void add(const StoredRolloutPtr& stored, bool by_age) {
    for (size_t i = 0; i < stored->units.size(); ++i) {
      const StoredUnit& unit = stored->units[i];
      const auto number = [](const Item& item) { return item.oldest.number; };
      const auto at = by_age ? std::ranges::upper_bound(items, unit.oldest, {}, number) : items.end();
      items.insert(at, {{stored.get(), i},
                        {stored->rollout->epoch, unit.oldest},
                        {stored->rollout->epoch, unit.newest},
                        unit.samples});
    }
  }
  uint64_t samples(uint64_t until = std::numeric_limits<uint64_t>::max()) const {
    uint64_t sum = 0;
    for (const Item& item : items)
      if (item.oldest.number <= until) sum += item.samples;
    return sum;
  }
  std::vector<Item> items;
};

Place place_of(const UnitPlace& unit) { return {unit.stored.get(), unit.entry}; }

// Units of 1 to 3 samples, each from one of the versions `low` to `low + 3`.
StoredRolloutPtr random_rollout(Rng& random, uint64_t low) {
  auto stored = std::make_shared<StoredRollout>();
  stored->rollout = make_rollout({.steps = 1, .columns = 1});
  const uint64_t units = random.below(150);
  for (uint64_t i = 0; i < units; ++i) {
    const uint64_t oldest = low + random.below(4);
    stored->units.push_back({{.index = static_cast<int32_t>(i),
                              .samples = static_cast<uint32_t>(1 + random.below(3)),
                              .oldest = oldest,
                              .newest = oldest + i % 3}});
  }
  return stored;
}

void check_same(const StoredUnits& units, const Reference& reference) {
  REQUIRE(units.size() == reference.items.size());
  CHECK(units.samples() == reference.samples());
  std::vector<Place> listed, expected;
  units.each([&](const UnitPlace& unit) { listed.push_back(place_of(unit)); });
  for (const Reference::Item& item : reference.items) expected.push_back(item.place);
  CHECK(listed == expected);
}

void compare_with_a_list(bool by_age, bool until_newest, uint64_t seed) {
  CAPTURE(by_age);
  CAPTURE(until_newest);
  CAPTURE(seed);
  Rng random(seed);
  StoredUnits units(by_age, until_newest);
  Reference reference;
  std::vector<StoredRolloutPtr> alive;
  for (uint64_t round = 0; round < 300; ++round) {
    alive.push_back(random_rollout(random, round / 10));
    units.add(alive.back());
    reference.add(alive.back(), by_age);
    for (uint64_t n = random.below(150); n > 0 && !reference.items.empty(); --n) {
      const uint64_t at = random.below(4) == 0 ? 0 : random.below(reference.items.size());
      const UnitPlace unit = units.at(at);
      REQUIRE(place_of(unit) == reference.items[at].place);
      units.remove(unit);
      CHECK(!unit.get().stored);
      reference.items.erase(reference.items.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (round % 7 == 6) {
      const PolicyVersion limit{0, round / 12};
      const auto is_stale = [&](PolicyVersion version) { return version < limit; };
      const auto drops = [&](const Reference::Item& item) {
        return is_stale(until_newest ? item.newest : item.oldest);
      };
      std::vector<Place> dropped, expected;
      units.remove_older(is_stale, [&](const UnitPlace& unit) { dropped.push_back(place_of(unit)); });
      for (const Reference::Item& item : reference.items)
        if (drops(item)) expected.push_back(item.place);
      std::erase_if(reference.items, drops);
      std::ranges::sort(dropped);
      std::ranges::sort(expected);
      REQUIRE(dropped == expected);
    }
    if (round % 20 == 0) check_same(units, reference);
    if (by_age && round % 20 == 0)
      for (uint64_t version = round / 12; version < round / 10 + 5; ++version)
        CHECK(units.samples_until(version) == reference.samples(version));
  }
  check_same(units, reference);
}

}  // namespace

TEST_CASE("stored_units: places, removals and the dropping of stale units are those of a plain list") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    compare_with_a_list(false, false, seed);
    compare_with_a_list(false, true, seed);
    compare_with_a_list(true, false, seed);
  }
}

TEST_CASE("stored_units: a list of units that each() gave makes the same order again") {
  for (const bool by_age : {false, true}) {
    Rng random(7);
    StoredUnits units(by_age), again(by_age);
    for (uint64_t i = 0; i < 20; ++i) units.add(random_rollout(random, i / 5));
    for (int i = 0; i < 200; ++i) units.remove(units.at(random.below(units.size())));
    std::vector<StoredRolloutPtr> rollouts;
    std::vector<std::pair<uint64_t, uint64_t>> list;
    std::vector<std::pair<int32_t, uint64_t>> before, after;
    std::map<const StoredRollout*, uint64_t> number;
    units.each([&](const UnitPlace& unit) {
      const auto [it, added] = number.try_emplace(unit.stored.get(), rollouts.size());
      if (added) {
        rollouts.push_back(std::make_shared<StoredRollout>(*unit.stored));
        for (StoredUnit& copy : rollouts.back()->units) copy.stored = false;
      }
      list.emplace_back(it->second, unit.entry);
      before.emplace_back(unit.get().index, unit.get().oldest);
    });
    again.add(rollouts, list);
    again.each([&](const UnitPlace& unit) { after.emplace_back(unit.get().index, unit.get().oldest); });
    CHECK(before == after);
    CHECK(again.samples() == units.samples());
    again.remove_older([](PolicyVersion version) { return version.number < 100; }, [](const UnitPlace&) {});
    CHECK(again.empty());
  }
}

TEST_CASE("stored_units: a rollout is freed with its last unit") {
  StoredUnits units(false);
  auto stored = std::make_shared<StoredRollout>();
  stored->rollout = make_rollout({.steps = 1, .columns = 2});
  stored->units.resize(2, {{.samples = 1}});
  const std::weak_ptr<const Rollout> rollout = stored->rollout;
  units.add(std::exchange(stored, nullptr));
  units.remove(units.front());
  CHECK(!rollout.expired());
  units.remove(units.front());
  CHECK(rollout.expired());
}

TEST_CASE("stored_units: a rollout without a stored unit is forgotten, whatever its version") {
  Rng random(1);
  for (const bool by_age : {false, true}) {
    StoredUnits units(by_age);
    for (uint64_t version = 0; version < 100; ++version) {
      units.add(random_rollout(random, version));
      while (units.size() > 50) units.remove(units.at(random.below(units.size())));
      CHECK(units.rollouts() <= 50);
    }
    units.remove_older([](PolicyVersion version) { return version.number < 60; }, [](const UnitPlace&) {});
    while (!units.empty()) units.remove(units.front());
    CHECK(units.rollouts() == 0);
  }
}
