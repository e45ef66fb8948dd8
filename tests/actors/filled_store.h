#pragma once
// A replay store with workers and their rollouts.

#include "actors/replay_store.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

namespace troupe::test {

// Super-batches of 16 samples, rollouts of 4 steps x 2 columns, one worker with two groups.
struct FilledStore {
  explicit FilledStore(int64_t lag = 1, const std::string& mode = "consume_once", int64_t capacity = 0,
                       const std::string& draw = "column", const std::string& late = "drop", bool filters = false) {
    config.late = late;
    config.filter_groups = filters;
    config.mode = mode;
    if (draw != "group") config.draw = draw;
    config.max_policy_lag = lag;
    config.capacity = capacity;
    config.max_reuse = 2;
    ReplayRules rules = rules_of(config, 16);
    if (draw == "group") rules.unit = UnitKind::group;
    store.emplace(rules, PolicyVersion{}, /*seed=*/1);
    store->join(1, 2, 8);
  }
  uint32_t granted() {
    uint32_t count = 0;
    for (const CreditGrant& grant : store->grant()) count += grant.count;
    return count;
  }
  void push(int rollouts, uint64_t version = 0) {
    for (int i = 0; i < rollouts; ++i) store->push(make_rollout({.sequence = sequence++, .version = {0, version}}));
  }
  void check_ledger() {
    CHECK(store->ledger().balances());
    CHECK(store->ledger().waiting == store->count_waiting());
  }

  ReplayConfig config;
  std::optional<ReplayStore> store;
  uint64_t sequence = 0;
};

}  // namespace troupe::test
