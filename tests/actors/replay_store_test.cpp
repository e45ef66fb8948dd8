#include "actors/replay_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Super-batches of 16 samples, rollouts of 4 steps x 2 columns, one worker with two groups.
struct Fixture {
  explicit Fixture(int64_t lag = 1, const std::string& mode = "consume_once", int64_t capacity = 0,
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

// Eight answers of one token to a prompt. Without spread they all have the same reward.
RolloutPtr make_group(uint64_t sequence, bool spread) {
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = 1;
  rollout->sequence = sequence;
  rollout->samples = rollout->env_steps = 8;
  Answers& answers = rollout->body.emplace<Answers>();
  answers.prompt_offsets = Array::of(std::vector<int64_t>{0, 1});
  answers.sampled.offsets = Array::of(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  answers.group = Array::of(std::vector<int32_t>(8));
  answers.sampled.version = Array::of(std::vector<int64_t>(8));
  answers.sampled.finish = Array::of(std::vector<uint8_t>(8));
  std::vector<float> rewards(8);
  rewards[0] = spread ? 1 : 0;
  answers.rewards = Array::of(rewards);
  return rollout;
}

}  // namespace

TEST_CASE("replay_store: no credit before an inference actor serves weights") {
  Fixture f;
  CHECK(f.granted() == 0);
  f.store->applied(0, {});
  CHECK(f.granted() == 4);  // two super-batches, and at most two credits per group
}

TEST_CASE("replay_store: with lag cap 0 credits cover one super-batch, and the next only after new weights") {
  Fixture f(0);
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
  Fixture f(0);
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
  Fixture f;
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
  Fixture f(1, "consume_once", 0, "column", "wait");
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
  CHECK(f.store->late_wait_seconds() == 0);
  f.push(2);
  CHECK(f.store->sample(4500ms));
  CHECK(f.store->late_wait_seconds() == 2.5);
  CHECK(f.store->sample(9s));
  CHECK(f.store->late_wait_seconds() == 2.5);
  CHECK(f.store->ledger().dropped_stale == 0);
}

TEST_CASE("replay_store: samples above the lag cap are dropped at sampling and counted") {
  Fixture f(1);
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
  Fixture f;
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
  Fixture f;
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
  Fixture f;
  f.store->progress(1, {{0, 8, 8, {}}});
  f.store->leave(1);
  CHECK_FALSE(f.store->push(make_rollout({})));
  CHECK(f.store->ledger().produced == 8);
  CHECK(f.store->ledger().lost_in_crash == 8);
  f.check_ledger();
}

TEST_CASE("replay_store: a pushed rollout replaces the oldest partial report of its group") {
  Fixture f;
  f.store->progress(1, {{0, 8, 8, {}}, {0, 2, 2, {}}, {1, 3, 3, {}}});
  f.store->push(make_rollout({}));  // of group 0: replaces the older of its two reports
  f.store->leave(1);
  CHECK(f.store->ledger().produced == 8 + 2 + 3);
  CHECK(f.store->ledger().lost_in_crash == 2 + 3);
  f.check_ledger();
}

TEST_CASE("replay_store: a killed worker adds at most its credits minus its reported samples to the uncounted ones") {
  Fixture f;
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
  Fixture f;
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
  Fixture f;
  f.store->push(make_rollout({}));
  f.store->leave(1, /*in_order=*/true);
  f.store->close();
  CHECK(f.store->ledger() == Ledger{.produced = 8, .left_over = 8});
  CHECK_FALSE(f.store->push(make_rollout({})));
  CHECK_FALSE(f.store->sample());
  f.check_ledger();
}

TEST_CASE("replay_store: if masked steps leave a super-batch short, one more rollout is admitted") {
  Fixture f(0);
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
  Fixture f;
  f.store->push(make_rollout({.steps = 1, .columns = 1, .invalid = {{0, 0}}}));
  CHECK(f.store->ledger() == Ledger{});
  CHECK_FALSE(f.store->sample());
}

TEST_CASE("replay_store: answers without a score are counted, and a rollout of nothing else returns its credit") {
  Fixture f;
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
  Fixture f;
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
  Fixture f;
  f.push(2);
  f.store->sample();
  f.store->failed(0);
  CHECK(f.store->ledger().lost_in_crash == 16);
  f.check_ledger();
}

TEST_CASE("replay_store: a failed update does not count as a use of its samples") {
  Fixture f;
  f.push(4);
  f.store->sample();
  f.store->sample();
  CHECK(std::isnan(f.store->mean_reuse()));
  f.store->trained(0);
  f.store->failed(1);
  CHECK(f.store->mean_reuse() == 1.0);
}

TEST_CASE("replay_store: reuse draws without replacement and retires a sample after max_reuse updates") {
  Fixture f(10, "reuse", 32);
  f.push(2);
  for (int use = 0; use < 2; ++use) {
    const auto batch = f.store->sample();
    REQUIRE(batch);
    CHECK(batch->samples == 16);
    f.store->trained(batch->index);
  }
  CHECK_FALSE(f.store->sample());
  CHECK(f.store->ledger().trained == 16);
  CHECK(f.store->mean_reuse() == doctest::Approx(2.0));
  f.check_ledger();
}

TEST_CASE("replay_store: a full buffer with reuse evicts the oldest, and only untrained samples count as dropped") {
  Fixture f(10, "reuse", 32);
  f.push(2);
  const auto batch = f.store->sample();
  REQUIRE(batch);
  f.store->trained(batch->index);
  f.push(4);
  CHECK(f.store->ledger().dropped_full == 0);
  f.push(1);
  CHECK(f.store->ledger().dropped_full == 8);
  f.check_ledger();
}

TEST_CASE("replay_store: a group without spread is filtered before a full buffer makes room or refuses") {
  for (const char* mode : {"reuse", "consume_once"}) {
    Fixture f(mode == std::string("reuse") ? 10 : 0, mode, 16, "group", "drop", true);
    for (uint64_t i = 0; i < 2; ++i) CHECK(f.store->push(make_group(i, true)));
    CHECK(f.store->push(make_group(2, false)));
    CHECK(f.store->ledger() == Ledger{.produced = 24, .filtered = 8, .waiting = 16});
    f.check_ledger();
    f.store->push(make_group(3, true));
    CHECK(f.store->ledger().dropped_full == 8);
    CHECK(f.store->sample());
  }
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
  Fixture f;
  f.store->applied(0, {0, 3});
  CHECK_FALSE(f.store->applied(0, {0, 2}));
}

TEST_CASE("replay_store: with consume_once single samples are drawn in the order of arrival") {
  Fixture f(1, "consume_once", 0, "sample");
  f.store->applied(0, {});
  f.granted();
  f.store->push(make_rollout({.sequence = 0, .invalid = {{0, 1}, {2, 0}}}));  // 6 samples
  f.push(2);
  const auto batch = f.store->sample();
  REQUIRE(batch);
  CHECK(batch->samples == 16);
  REQUIRE(batch->parts.size() == 3);
  CHECK(batch->parts[0].indices == std::vector<int32_t>{0, 2, 3, 5, 6, 7});
  CHECK(batch->parts[1].indices == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(batch->parts[2].indices == std::vector<int32_t>{0, 1});
  for (const RolloutUnits& part : batch->parts) CHECK(part.kind == UnitKind::sample);
  CHECK_FALSE(f.store->sample());
  f.store->trained(0);
  CHECK(f.store->ledger().trained == 16);
  CHECK(f.store->ledger().waiting == 6);
  f.check_ledger();
}

TEST_CASE("replay_store: single samples are drawn again until max_reuse updates have used each") {
  Fixture f(1000, "reuse", 64, "sample");
  for (const auto& gap : {std::pair<int64_t, int64_t>{0, 0}, {1, 1}, {3, 0}, {2, 1}})
    f.store->push(make_rollout({.sequence = f.sequence++, .invalid = {gap}}));
  CHECK(f.store->ledger().produced == 28);
  std::map<std::pair<uint64_t, int32_t>, int> uses;
  while (const auto batch = f.store->sample()) {
    CHECK(batch->samples == 16);
    for (const RolloutUnits& part : batch->parts)
      for (const int32_t index : part.indices) {
        CHECK(part.rollout->grid().valid.view<uint8_t>()[static_cast<size_t>(index)] == 1);
        CHECK(++uses[{part.rollout->sequence, index}] <= 2);
      }
    f.store->trained(batch->index);
    f.check_ledger();
  }
  // The samples that could still be used are fewer than a super-batch.
  uint64_t left = 28 - uses.size();
  for (const auto& [sample, count] : uses) left += count < 2;
  CHECK(left < 16);
  CHECK(f.store->ledger().trained == uses.size());
  CHECK(f.store->ledger().trained + f.store->ledger().waiting == 28);
}

TEST_CASE("replay_store: single samples are drawn uniformly, and independently of their column") {
  constexpr int kRollouts = 31, kDraws = 4000;
  // One of the 8 steps of each rollout but the last is masked.
  constexpr double kSamples = kRollouts * 7 + 1, kBatch = 16;
  Fixture f(1'000'000, "reuse", 248, "sample");
  f.config.max_reuse = 1'000'000;
  f.store.emplace(rules_of(f.config, 16), PolicyVersion{}, /*seed=*/1);
  f.store->join(1, 2, 8);
  for (int i = 0; i < kRollouts; ++i) {
    test::RolloutRecipe recipe{.sequence = static_cast<uint64_t>(i)};
    if (i + 1 < kRollouts) recipe.invalid = {{i % 8 / 2, i % 2}};
    f.store->push(make_rollout(recipe));
  }
  REQUIRE(static_cast<double>(f.store->ledger().waiting) == kSamples);
  std::map<std::pair<uint64_t, int32_t>, double> counts;
  // Pairs of consecutive steps of a column: drawn into the same batch, and in the buffer.
  double neighbours = 0, pairs = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto batch = f.store->sample();
    REQUIRE(batch);
    for (const RolloutUnits& part : batch->parts)
      for (const int32_t index : part.indices) {
        ++counts[{part.rollout->sequence, index}];
        neighbours += std::ranges::binary_search(part.indices, index + 2);
      }
    f.store->trained(batch->index);
  }
  for (const auto& [sample, count] : counts) pairs += counts.contains({sample.first, sample.second + 2});
  REQUIRE(counts.size() == static_cast<size_t>(kSamples));
  // The counts of draws without replacement have the covariance kDraws p (1 - p) K / (K - 1) (I - 1/K) with K =
  // kSamples. So the statistic is chi-square with K - 1 = 217 degrees of freedom. The limits are the quantiles 0.0005
  // and 0.9995.
  const double p = kBatch / kSamples, expected = kDraws * p;
  double statistic = 0;
  for (const auto& [sample, count] : counts) statistic += (count - expected) * (count - expected);
  statistic *= (kSamples - 1) / (kSamples * kDraws * p * (1 - p));
  CHECK(statistic > 154.9);
  CHECK(statistic < 292.2);
  // Two given samples are in one batch with probability p (B - 1) / (K - 1). The number of such pairs is approximately
  // Poisson; the limit is five standard deviations.
  const double together = kDraws * pairs * p * (kBatch - 1) / (kSamples - 1);
  CHECK(std::abs(neighbours - together) < 5 * std::sqrt(together));
}

TEST_CASE("replay_store: a super-batch and a rollout of a single sample work") {
  ReplayConfig config;
  config.draw = "sample";
  ReplayStore store(rules_of(config, 1), {}, 1);
  store.join(1, 1, 1);
  store.push(make_rollout({.steps = 1, .columns = 1, .invalid = {{0, 0}}}));
  CHECK_FALSE(store.sample());
  store.push(make_rollout({.sequence = 1, .steps = 1, .columns = 1}));
  const auto batch = store.sample();
  REQUIRE(batch);
  CHECK(batch->samples == 1);
  CHECK(batch->parts.size() == 1);
  CHECK_FALSE(store.sample());
  store.failed(0);
  CHECK(store.ledger() == Ledger{.produced = 1, .lost_in_crash = 1});
}

TEST_CASE("replay_store: a store that was loaded from bytes draws the same batches as the saved one") {
  for (const auto& [mode, draw] : {std::pair<std::string, std::string>{"consume_once", "column"},
                                   {"reuse", "column"},
                                   {"consume_once", "sample"},
                                   {"reuse", "sample"}}) {
    CAPTURE(mode);
    CAPTURE(draw);
    Fixture saved(3, mode, 0, draw), loaded(3, mode, 0, draw);
    saved.store->applied(0, {});
    for (int i = 0; i < 5 && saved.granted() > 0; ++i) saved.push(static_cast<int>(saved.store->credits_outstanding()));
    REQUIRE(saved.store->sample());
    saved.store->trained(0);
    while (saved.granted() > 0) saved.push(static_cast<int>(saved.store->credits_outstanding()));
    const std::string bytes = saved.store->save();
    loaded.store->load(bytes);
    loaded.store->applied(0, {});
    CHECK(loaded.store->save() == bytes);
    CHECK(loaded.store->ledger() == saved.store->ledger());
    loaded.check_ledger();
    CHECK(loaded.granted() == 0);  // loading frees no room for new credits
    for (uint64_t index = 1; index < 3; ++index) {
      const auto a = saved.store->sample(), b = loaded.store->sample();
      REQUIRE((a && b && a->parts.size() == b->parts.size()));
      CHECK(b->index == index);
      for (size_t i = 0; i < a->parts.size(); ++i) {
        CHECK(a->parts[i].rollout->sequence == b->parts[i].rollout->sequence);
        CHECK(a->parts[i].indices == b->parts[i].indices);
        CHECK(a->parts[i].kind == b->parts[i].kind);
      }
      saved.store->trained(index);
      loaded.store->trained(index);
    }
    CHECK(loaded.store->save() == saved.store->save());
  }
}

TEST_CASE("replay_store: a store with outstanding credits cannot be saved") {
  Fixture f;
  f.store->applied(0, {});
  CHECK(f.granted() > 0);
  CHECK_THROWS_AS(f.store->save(), InvariantError);
}

TEST_CASE("replay_store: a worker that has all its credits does not keep others from theirs") {
  Fixture f(4);
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
