// replay.late "mask": the lag cap counts for each token.

#include <optional>
#include <vector>

#include "actors/replay_store.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The versions of the tokens of each answer to a prompt.
using Group = std::vector<std::vector<int64_t>>;

RolloutPtr rollout_of(const Group& group, uint64_t sequence) {
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = 1;
  rollout->sequence = sequence;
  rollout->samples = rollout->env_steps = group.size();
  std::vector<int64_t> offsets{0}, versions;
  for (const std::vector<int64_t>& answer : group) {
    versions.insert(versions.end(), answer.begin(), answer.end());
    offsets.push_back(static_cast<int64_t>(versions.size()));
  }
  rollout->oldest = static_cast<uint64_t>(std::ranges::min(versions));
  rollout->newest = static_cast<uint64_t>(std::ranges::max(versions));
  Answers& answers = rollout->body.emplace<Answers>();
  answers.prompt_offsets = Array::of(std::vector<int64_t>{0, 1});
  answers.sampled.offsets = Array::of(offsets);
  answers.sampled.version = Array::of(versions);
  answers.sampled.finish = Array::of(std::vector<uint8_t>(group.size()));
  answers.group = Array::of(std::vector<int32_t>(group.size()));
  answers.rewards = Array::of(std::vector<float>(group.size()));
  return rollout;
}

// Super-batches of two answers, the next of which update 3 uses with a lag cap of 1: tokens of versions below 2 are
// too old.
struct Fixture {
  explicit Fixture(bool masks = true)
      : rules{.super_batch = 2, .capacity = 8, .max_policy_lag = 1, .masks_late = masks, .unit = UnitKind::group},
        store(rules, PolicyVersion{0, 3}, /*seed=*/1) {
    store.join(1, 1, 2);
  }
  void push(const Group& group) { store.push(rollout_of(group, sequence++)); }
  void check_ledger(const Ledger& expected) {
    CHECK(store.ledger() == expected);
    CHECK(store.ledger().balances());
    CHECK(store.ledger().waiting == store.count_waiting());
  }

  ReplayRules rules;
  ReplayStore store;
  uint64_t sequence = 0;
};

}  // namespace

TEST_CASE("replay_masking: a group with a token that is new enough is drawn, with the least version of those") {
  Fixture f;
  f.push({{0, 1, 2}, {1, 3}});
  const auto batch = f.store.sample();
  REQUIRE(batch);
  CHECK(batch->index == 3);
  CHECK(batch->least_version == 2);
  CHECK(batch->samples == 2);
}

TEST_CASE("replay_masking: the same group is dropped without masks") {
  Fixture f(false);
  f.push({{0, 1, 2}, {1, 3}});
  CHECK_FALSE(f.store.sample());
  f.check_ledger({.produced = 2, .dropped_stale = 2});
}

TEST_CASE("replay_masking: without masks every token of a batch is trained") {
  Fixture f(false);
  f.push({{2, 3}, {3}});
  CHECK(f.store.sample().value().least_version == 0);
}

TEST_CASE("replay_masking: a group whose tokens are all too old is dropped") {
  Fixture f;
  f.push({{0, 1}, {1, 1, 1}});
  CHECK_FALSE(f.store.sample());
  f.check_ledger({.produced = 2, .dropped_stale = 2});
  CHECK(f.store.token_figures().dropped.tokens == 5);
}

TEST_CASE("replay_masking: an answer whose tokens are all too old is dropped from its group, once the group is used") {
  Fixture f;
  f.push({{0, 1}, {1, 1, 2, 3}});
  REQUIRE(f.store.sample());
  f.check_ledger({.produced = 2, .waiting = 2});
  f.store.trained(3);
  f.check_ledger({.produced = 2, .trained = 1, .dropped_stale = 1});
  CHECK(f.store.mean_reuse() == 1);
}

TEST_CASE("replay_masking: the answers of an update that failed are lost, late ones too") {
  Fixture f;
  f.push({{0, 1}, {1, 1, 2, 3}});
  REQUIRE(f.store.sample());
  f.store.failed(3);
  f.check_ledger({.produced = 2, .lost_in_crash = 2});
}

TEST_CASE("replay_masking: tokens are counted as produced, trained, masked and dropped") {
  Fixture f;
  f.push({{0, 1}, {1, 1, 2, 3}});
  f.push({{3}, {3, 3, 3}});
  REQUIRE(f.store.sample());
  f.store.trained(3);
  const TokenFigures& tokens = f.store.token_figures();
  CHECK(tokens.produced.tokens == 10);
  CHECK(tokens.trained.samples == 1);
  CHECK(tokens.trained.tokens == 4);
  CHECK(tokens.masked == 2);
  CHECK(tokens.dropped.samples == 1);
  CHECK(tokens.dropped.tokens == 2);
}

TEST_CASE("replay_masking: the lag of a late group is that of its oldest token that is trained") {
  Fixture f;
  f.push({{0, 1, 2}, {1, 3}});
  f.push({{3, 4}, {4}});
  REQUIRE(f.store.sample());
  REQUIRE(f.store.sample());
  CHECK(f.store.last_lags().empty());
  f.store.trained(3);
  CHECK(f.store.last_lags() == std::vector<std::pair<uint64_t, uint32_t>>{{1, 2}});
  f.store.trained(4);
  CHECK(f.store.last_lags() == std::vector<std::pair<uint64_t, uint32_t>>{{1, 2}});
}

TEST_CASE("replay_masking: lags are those of the answers that were trained, without dropped ones") {
  Fixture f;
  f.push({{0, 1}, {1, 1, 2, 3}});
  REQUIRE(f.store.sample());
  f.store.trained(3);
  CHECK(f.store.last_lags() == std::vector<std::pair<uint64_t, uint32_t>>{{1, 1}});
}

TEST_CASE("replay_masking: an update that failed has no lags") {
  Fixture f;
  f.push({{2, 3}, {3}});
  REQUIRE(f.store.sample());
  f.store.failed(3);
  CHECK(f.store.last_lags().empty());
}

TEST_CASE("replay_masking: in the first updates no version is too old") {
  ReplayStore store(Fixture().rules, {}, 1);
  store.join(1, 1, 2);
  store.push(rollout_of({{0, 0}, {0}}, 0));
  CHECK(store.sample().value().least_version == 0);
}

TEST_CASE("replay_masking: groups of an earlier epoch are dropped, however new their tokens are") {
  ReplayStore store(Fixture().rules, {2, 3}, 1);
  store.join(1, 1, 2);
  store.push(rollout_of({{3, 3}, {3}}, 0));
  CHECK_FALSE(store.sample());
  CHECK(store.ledger().dropped_stale == 2);
}

TEST_CASE("replay_masking: a store that was loaded from bytes masks and drops as the saved one") {
  Fixture saved, loaded;
  saved.push({{0, 1}, {1, 1, 2, 3}});
  saved.push({{0, 1}, {1, 2}});
  loaded.store.load(saved.store.save());
  CHECK(loaded.store.save() == saved.store.save());
  for (Fixture* f : {&saved, &loaded}) {
    CHECK(f->store.sample().value().least_version == 2);
    f->store.trained(3);
    CHECK_FALSE(f->store.sample());  // the newest token of the second group has version 2, too old for update 4
    f->check_ledger({.produced = 4, .trained = 1, .dropped_stale = 3});
  }
  CHECK(loaded.store.save() == saved.store.save());
}
