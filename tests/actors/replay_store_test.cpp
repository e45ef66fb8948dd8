#include "actors/replay_store.h"

#include <chrono>
#include <cmath>

#include "tests/actors/filled_store.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("replay_store: no credit before an inference actor serves weights") {
  FilledStore f;
  CHECK(f.granted() == 0);
  f.store->applied(0, {});
  CHECK(f.granted() == 4);  // two super-batches, and at most two credits per group
}

TEST_CASE("replay_store: with lag cap 0 credits cover one super-batch, and the next only after new weights") {
  FilledStore f(0);
  f.store->applied(0, {});
  CHECK(f.granted() == 2);
  f.push(2);
  CHECK(f.granted() == 0);
  const auto batch = f.store->sample();
  REQUIRE(batch);
  CHECK(f.granted() == 0);  // the next weights are not applied yet
  f.store->trained(0);
  CHECK(f.granted() == 0);
  f.store->applied(0, {0, 1});
  CHECK(f.granted() == 2);
  f.check_ledger();
}

TEST_CASE("replay_store: credits follow the slowest receiver that is not gone") {
  FilledStore f(0);
  f.store->applied(0, {});
  f.store->applied(1, {});
  f.granted();
  f.push(2);
  REQUIRE(f.store->sample());
  f.store->trained(0);
  f.store->applied(0, {0, 1});
  CHECK(f.granted() == 0);
  f.store->receiver_gone(1);
  CHECK(f.granted() == 2);
}

TEST_CASE("replay_store: consume_once draws every sample once, oldest first") {
  FilledStore f;
  f.store->applied(0, {});
  f.granted();
  f.push(4);
  const auto first = f.store->sample(), second = f.store->sample();
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->index == 0);
  CHECK(second->index == 1);
  CHECK(first->samples == 16);
  CHECK(first->parts.size() == 2);
  CHECK(first->parts[0].rollout->sequence == 0);
  CHECK(second->parts[0].rollout->sequence == 2);
  CHECK_FALSE(f.store->sample());
  f.store->trained(0);
  f.store->trained(1);
  CHECK(f.store->ledger().trained == 32);
  f.check_ledger();
}

TEST_CASE("replay_store: with late \"wait\", the time that updates wait for late rollouts is counted") {
  using namespace std::chrono_literals;
  FilledStore f(1, "consume_once", 0, "column", "wait");
  f.store->applied(0, {});
  REQUIRE(f.granted() == 4);
  f.push(2);
  REQUIRE(f.store->sample(1s));
  f.store->trained(0);
  f.store->applied(0, {0, 1});
  REQUIRE(f.granted() == 2);
  f.push(2, /*version=*/1);  // could be trained, but then two of version 0 could not
  CHECK_FALSE(f.store->sample(2s));
  CHECK_FALSE(f.store->sample(4s));
  CHECK(f.store->late_wait_seconds(4s) == 2);  // it goes on
  f.push(2);
  CHECK(f.store->sample(4500ms));
  CHECK(f.store->late_wait_seconds(4500ms) == 2.5);
  CHECK(f.store->sample(9s));
  CHECK(f.store->late_wait_seconds(9s) == 2.5);
  CHECK(f.store->ledger().dropped_stale == 0);
}

TEST_CASE("replay_store: samples above the lag cap are dropped at sampling and counted") {
  FilledStore f(1);
  f.store->applied(0, {});
  f.push(4);
  f.store->sample();
  f.store->sample();
  f.push(1, /*version=*/0);  // the next update is 2, so its lag would be 2
  f.push(2, /*version=*/1);
  const auto batch = f.store->sample();
  REQUIRE(batch);
  for (const auto& part : batch->parts) CHECK(part.rollout->oldest == 1);
  CHECK(f.store->ledger().dropped_stale == 8);
  f.check_ledger();
}

TEST_CASE("replay_store: samples of an earlier epoch are stale with any lag cap") {
  ReplayConfig config;
  config.max_policy_lag = 100;
  ReplayStore store(rules_of(config, 8), {3, 7}, 1);
  store.join(1, 1, 8);
  store.push(make_rollout({.version = {2, 7}}));
  CHECK_FALSE(store.sample());
  CHECK(store.ledger().dropped_stale == 8);
}

TEST_CASE("replay_store: a worker that leaves returns its credits and loses its partial samples") {
  FilledStore f;
  f.store->applied(0, {});
  CHECK(f.granted() == 4);
  f.store->progress(1, {{0, 5, 10, {}}});
  f.store->leave(1);
  CHECK(f.store->env_steps() == 10);
  CHECK(f.store->credits_outstanding() == 0);
  CHECK(f.store->ledger().lost_in_crash == 5);
  f.store->leave(1);  // twice changes nothing
  f.store->join(2, 2, 8);
  CHECK(f.granted() == 4);
  f.check_ledger();
}

TEST_CASE("replay_store: samples of a worker that stops normally are left over, not lost") {
  FilledStore f;
  CHECK(std::isnan(f.store->mean_reuse()));  // no sample was used yet
  f.store->progress(1, {{0, 5, 40, {}}});
  f.store->leave(1, /*in_order=*/true);
  CHECK(f.store->ledger() == Ledger{.produced = 5, .left_over = 5});
  CHECK(f.store->env_steps() == 40);
  CHECK_FALSE(f.store->push(make_rollout({})));  // too late: already counted as left over
  CHECK(f.store->env_steps() == 40);
  f.check_ledger();
}

TEST_CASE("replay_store: a rollout of a worker that is gone is refused, because its samples are counted as lost") {
  FilledStore f;
  f.store->progress(1, {{0, 8, 8, {}}});
  f.store->leave(1);
  CHECK_FALSE(f.store->push(make_rollout({})));
  CHECK(f.store->ledger().produced == 8);
  CHECK(f.store->ledger().lost_in_crash == 8);
  f.check_ledger();
}

TEST_CASE("replay_store: a pushed rollout replaces the oldest partial report of its group") {
  FilledStore f;
  f.store->progress(1, {{0, 8, 8, {}}, {0, 2, 2, {}}, {1, 3, 3, {}}});
  f.store->push(make_rollout({}));  // of group 0: replaces the older of its two reports
  f.store->leave(1);
  CHECK(f.store->ledger().produced == 8 + 2 + 3);
  CHECK(f.store->ledger().lost_in_crash == 2 + 3);
  f.check_ledger();
}

TEST_CASE("replay_store: a killed worker adds at most its credits minus its reported samples to the uncounted ones") {
  FilledStore f;
  f.store->applied(0, {});
  const uint64_t credits = f.granted();
  REQUIRE(credits == 4);
  f.store->progress(1, {{0, 5, 5, {}}});
  f.store->leave(1);
  CHECK(f.store->uncounted_at_most() == credits * 8 - 5);
  for (const bool in_order : {true, false}) {
    f.store->join(2, 2, 8);
    f.granted();
    f.store->progress(2, {{0, 3, 3, {}}}, /*last=*/true);
    f.store->leave(2, in_order);
    CHECK(f.store->uncounted_at_most() == credits * 8 - 5);
  }
}

TEST_CASE("replay_store: episodes of known workers are taken once, from rollouts and from partial reports") {
  FilledStore f;
  const auto with_episode = [](float episode_return, uint64_t worker) {
    auto rollout = std::make_shared<Rollout>(*make_rollout({.worker = worker}));
    rollout->episodes = {Array::of<float>({1}, {episode_return}), Array::of<int32_t>({1}, {4}),
                         Array::of<uint8_t>({1}, {0})};
    return rollout;
  };
  f.store->push(with_episode(1, 1));
  f.store->push(with_episode(2, 77));  // of an unknown worker
  f.store->progress(1, {{0, 2, 2, with_episode(3, 1)->episodes}});
  f.store->leave(1);
  const std::vector<Episodes> episodes = f.store->take_episodes();
  REQUIRE(episodes.size() == 2);
  CHECK(episodes[0].returns == Array::of<float>({1}, {1.0f}));
  CHECK(episodes[1].returns == Array::of<float>({1}, {3.0f}));
  CHECK(f.store->take_episodes().empty());
}

TEST_CASE("replay_store: when it is closed, waiting samples are left over and new rollouts are refused") {
  FilledStore f;
  f.store->push(make_rollout({}));
  f.store->leave(1, /*in_order=*/true);
  f.store->close();
  CHECK(f.store->ledger() == Ledger{.produced = 8, .left_over = 8});
  CHECK_FALSE(f.store->push(make_rollout({})));
  CHECK_FALSE(f.store->sample());
  f.check_ledger();
}

TEST_CASE("replay_store: if masked steps leave a super-batch short, one more rollout is admitted") {
  FilledStore f(0);
  f.store->applied(0, {});
  CHECK(f.granted() == 2);
  f.store->push(make_rollout({.sequence = 0, .invalid = {{0, 0}, {1, 0}}}));
  f.push(1);
  CHECK_FALSE(f.store->sample());  // 14 of 16 samples
  CHECK(f.granted() == 1);
  f.push(1);
  CHECK(f.store->sample());
  f.check_ledger();
}

TEST_CASE("replay_store: a rollout without a single valid step changes no count") {
  FilledStore f;
  f.store->push(make_rollout({.steps = 1, .columns = 1, .invalid = {{0, 0}}}));
  CHECK(f.store->ledger() == Ledger{});
  CHECK_FALSE(f.store->sample());
}

TEST_CASE("replay_store: answers without a score are counted, and a rollout of nothing else returns its credit") {
  FilledStore f;
  auto rollout = std::make_shared<Rollout>(*make_rollout({.steps = 1, .columns = 1, .invalid = {{0, 0}}}));
  rollout->unscored = 2;
  rollout->verifier_failed = 3;
  rollout->env_steps = 5;
  f.store->applied(0, {});
  f.granted();
  const uint64_t credits = f.store->credits_outstanding();
  f.store->push(rollout);
  CHECK(f.store->credits_outstanding() == credits - 1);
  CHECK(f.store->ledger() == Ledger{.produced = 5, .unscored = 2, .verifier_failed = 3});
  CHECK(f.store->ledger().balances());
  CHECK(f.store->env_steps() == 5);
  CHECK_FALSE(f.store->sample());
}

TEST_CASE("replay_store: greedy answers are counted on their own, also those that a lost worker may have made") {
  FilledStore f;
  f.store->expect_baselines();
  auto rollout = std::make_shared<Rollout>(*make_rollout({.steps = 1, .columns = 1, .invalid = {{0, 0}}}));
  rollout->baselines = 1;
  rollout->unscored = 2;
  rollout->env_steps = 3;
  f.store->applied(0, {});
  f.granted();
  f.store->push(rollout);
  CHECK(f.store->ledger() == Ledger{.produced = 3, .unscored = 2, .baselines = 1});
  CHECK(f.store->ledger().balances());
  const uint64_t credits = f.store->credits_outstanding();
  REQUIRE(credits > 0);
  f.store->leave(rollout->worker);
  CHECK(f.store->uncounted_at_most() == credits * (8 + 1));
}

TEST_CASE("replay_store: the samples of a failed update count as lost") {
  FilledStore f;
  f.push(2);
  f.store->sample();
  f.store->failed(0);
  CHECK(f.store->ledger().lost_in_crash == 16);
  f.check_ledger();
}

TEST_CASE("replay_store: a failed update does not count as a use of its samples") {
  FilledStore f;
  f.push(4);
  f.store->sample();
  f.store->sample();
  CHECK(std::isnan(f.store->mean_reuse()));
  f.store->trained(0);
  f.store->failed(1);
  CHECK(f.store->mean_reuse() == 1.0);
}

TEST_CASE("replay_store: a resumed run counts waiting samples as lost and continues from its version") {
  ReplayStore store(rules_of({}, 8), {1, 5}, 1, Ledger{.produced = 20, .trained = 12, .waiting = 8});
  CHECK(store.ledger().lost_in_crash == 8);
  CHECK(store.ledger().balances());
  CHECK(store.next_index() == 5);
  store.applied(0, {1, 5});
  CHECK(*store.applied_number() == 5);
}

TEST_CASE("replay_store: credits are granted to the workers in turn") {
  ReplayConfig config;
  config.max_policy_lag = 0;
  ReplayStore store(rules_of(config, 8), {}, 1);
  store.join(1, 1, 4);
  store.join(2, 1, 4);
  store.applied(0, {});
  const auto grants = store.grant();
  REQUIRE(grants.size() == 2);
  CHECK(grants[0].count == 1);
  CHECK(grants[1].count == 1);
}

TEST_CASE("replay_store: a receiver cannot report an older version than before") {
  FilledStore f;
  f.store->applied(0, {0, 3});
  CHECK_FALSE(f.store->applied(0, {0, 2}));
}

TEST_CASE("replay_store: a worker that has all its credits does not keep others from theirs") {
  FilledStore f(4);
  f.store->join(2, 1, 8);
  f.store->applied(0, {});
  std::map<uint64_t, uint32_t> granted;
  for (const CreditGrant& grant : f.store->grant()) granted[grant.worker] += grant.count;
  CHECK(granted == std::map<uint64_t, uint32_t>{{1, 2}, {2, 2}});  // room for two super-batches at the start
  CHECK(f.store->samples_promised() == 32);
  f.store->leave(2);
  CHECK(f.store->samples_promised() == 16);
  CHECK(f.store->credits_outstanding() == 2);
  CHECK(f.granted() == 2);  // those of the one that left
}
