#include "actors/replay_shards.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Parts of 16 samples of a super-batch, rollouts of 8, workers with one group.
struct Run {
  explicit Run(size_t shards, int64_t lag = 1, const std::string& mode = "consume_once")
      : replay(rules(lag, mode), shards, PolicyVersion{}, /*seed=*/1) {
    replay.applied(0, {});
  }
  static ReplayRules rules(int64_t lag, const std::string& mode) {
    ReplayConfig config;
    config.max_policy_lag = lag;
    config.mode = mode;
    config.max_reuse = 2;
    return rules_of(config, 16);
  }
  void join(uint64_t worker) { replay.join(worker, /*groups=*/1, /*samples_per_rollout=*/8); }
  // What each worker was granted.
  std::map<uint64_t, uint32_t> granted() {
    std::map<uint64_t, uint32_t> result;
    for (const CreditGrant& grant : replay.grant()) result[grant.worker] += grant.count;
    return result;
  }
  void push(uint64_t worker, int rollouts) {
    for (int i = 0; i < rollouts; ++i) CHECK(replay.push(make_rollout({.worker = worker, .sequence = sequence++})));
  }
  void check_ledger() const {
    CHECK(replay.ledger().balances());
    CHECK(replay.ledger().waiting == replay.count_waiting());
  }

  ReplayShards replay;
  uint64_t sequence = 0;
};

std::set<uint64_t> workers_in(const SuperBatch& batch) {
  std::set<uint64_t> result;
  for (const RolloutUnits& part : batch.parts) result.insert(part.rollout->worker);
  return result;
}

}  // namespace

TEST_CASE("replay_shards: workers join the shard with the fewest") {
  Run run(3);
  for (uint64_t worker = 0; worker < 7; ++worker) run.join(worker);
  for (uint64_t worker = 0; worker < 7; ++worker) CHECK(run.replay.shard_of(worker) == worker % 3);
  run.replay.leave(1);
  run.join(9);
  CHECK(run.replay.shard_of(9) == 1);
  CHECK_FALSE(run.replay.shard_of(1));
  run.join(9);  // again
  CHECK(run.replay.shard_of(9) == 1);
}

TEST_CASE("replay_shards: a super-batch is drawn when every shard has its part, from its own workers") {
  Run run(2);
  run.join(0);
  run.join(1);
  CHECK(run.granted() == std::map<uint64_t, uint32_t>{{0, 2}, {1, 2}});
  run.push(0, 2);
  CHECK_FALSE(run.replay.sample());
  run.push(1, 1);
  CHECK_FALSE(run.replay.sample());
  run.push(1, 1);
  const auto shards = run.replay.sample();
  REQUIRE(shards);
  REQUIRE(shards->size() == 2);
  for (size_t shard = 0; shard < 2; ++shard) {
    CHECK(shards->at(shard).index == 0);
    CHECK(shards->at(shard).samples == 16);
    CHECK(shards->at(shard).env_steps == 32);  // of the whole run
    CHECK(workers_in(shards->at(shard)) == std::set<uint64_t>{shard});
  }
  CHECK(run.replay.next_index() == 1);
  run.replay.trained(0);
  CHECK(run.replay.ledger().trained == 32);
  CHECK(run.replay.last_lags().size() == 8);  // columns
  CHECK(run.replay.mean_reuse() == 1);
  run.check_ledger();
}

TEST_CASE("replay_shards: a shard that has enough does not take what another one needs") {
  Run run(2, /*lag=*/0);
  run.join(0);
  run.join(1);
  run.granted();
  run.push(0, 2);
  CHECK(run.granted().empty());  // its part is complete, and the other's is promised
  run.push(1, 2);
  REQUIRE(run.replay.sample());
  run.replay.trained(0);
  run.replay.applied(0, {0, 1});
  CHECK(run.granted() == std::map<uint64_t, uint32_t>{{0, 2}, {1, 2}});
}

TEST_CASE("replay_shards: if a shard loses its last worker, another shard gives one that has used its credits") {
  Run run(2, /*lag=*/4);
  for (uint64_t worker = 0; worker < 3; ++worker) run.join(worker);
  run.granted();
  run.replay.leave(1);                 // the only one of shard 1
  CHECK(run.replay.shard_of(2) == 0);  // still
  CHECK_FALSE(run.granted().contains(2));
  run.push(2, 2);
  CHECK(run.granted().at(2) == 2);
  CHECK(run.replay.shard_of(2) == 1);
  run.push(2, 2);
  CHECK(run.replay.shard_of(0) == 0);
  run.push(0, 2);
  const auto shards = run.replay.sample();
  REQUIRE(shards);
  CHECK(workers_in(shards->at(0)).contains(2));  // what it made for that shard stays there
  CHECK(workers_in(shards->at(1)) == std::set<uint64_t>{2});
  run.check_ledger();
}

TEST_CASE("replay_shards: a worker that joins before the other has moved fills the empty shard too") {
  Run run(2);
  for (uint64_t worker = 0; worker < 3; ++worker) run.join(worker);
  run.replay.leave(1);  // worker 2 is to move
  run.join(5);
  run.granted();
  CHECK(run.replay.shard_of(2) == 1);  // it had no credits
  CHECK(run.replay.shard_of(5) == 0);
}

TEST_CASE("replay_shards: the limit of environment steps counts those of all shards") {
  Run run(2, /*lag=*/8);
  run.replay.stop_at(/*env_steps=*/64, /*steps_per_sample=*/1);
  run.join(0);
  run.join(1);
  uint64_t promised = 0;
  for (int round = 0; round < 20; ++round)
    for (const auto& [worker, credits] : run.granted()) {
      promised += uint64_t{credits} * 8;
      run.push(worker, static_cast<int>(credits));
    }
  CHECK(promised >= 64);
  CHECK(promised <= 64 + 2 * 16);
}

TEST_CASE("replay_shards: a saved state continues with the same draws") {
  const auto filled = [] {
    Run run(2, /*lag=*/4, "reuse");
    run.join(0);
    run.join(1);
    for (int round = 0; round < 3; ++round)
      for (const auto& [worker, credits] : run.granted()) run.push(worker, static_cast<int>(credits));
    return run;
  };
  Run first = filled(), second(2, /*lag=*/4, "reuse");
  for (uint64_t worker : {0, 1}) {
    first.replay.leave(worker, /*in_order=*/true);
    second.join(worker);
  }
  second.replay.load(first.replay.save());
  CHECK(second.replay.ledger() == first.replay.ledger());
  const auto drawn = [](Run& run) {
    std::vector<std::pair<uint64_t, int32_t>> result;
    const auto shards = run.replay.sample();
    REQUIRE(shards);
    for (const SuperBatch& shard : *shards)
      for (const RolloutUnits& part : shard.parts)
        for (const int32_t index : part.indices) result.emplace_back(part.rollout->sequence, index);
    return result;
  };
  CHECK(drawn(first) == drawn(second));
  Run other(3, /*lag=*/4, "reuse");
  CHECK_THROWS(other.replay.load(first.replay.save()));
}

TEST_CASE("replay_shards: the shards draw from streams of their own") {
  Run run(2, /*lag=*/4, "reuse");
  run.join(0);
  run.join(1);
  for (int round = 0; round < 4; ++round)
    for (const auto& [worker, credits] : run.granted()) run.push(worker, static_cast<int>(credits));
  const auto shards = run.replay.sample();
  REQUIRE(shards);
  const auto places = [](const SuperBatch& shard) {
    std::vector<std::pair<size_t, int32_t>> result;
    for (size_t part = 0; part < shard.parts.size(); ++part)
      for (const int32_t index : shard.parts[part].indices) result.emplace_back(part, index);
    return result;
  };
  CHECK(shards->at(0).samples == 16);
  CHECK_FALSE(places(shards->at(0)) == places(shards->at(1)));
}
