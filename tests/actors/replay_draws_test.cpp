#include "actors/replay_store.h"

#include <algorithm>
#include <cmath>

#include "tests/actors/filled_store.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

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

TEST_CASE("replay_store: reuse draws without replacement and retires a sample after max_reuse updates") {
  FilledStore f(10, "reuse", 32);
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
  FilledStore f(10, "reuse", 32);
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
    FilledStore f(mode == std::string("reuse") ? 10 : 0, mode, 16, "group", "drop", true);
    for (uint64_t i = 0; i < 2; ++i) CHECK(f.store->push(make_group(i, true)));
    CHECK(f.store->push(make_group(2, false)));
    CHECK(f.store->ledger() == Ledger{.produced = 24, .filtered = 8, .waiting = 16});
    f.check_ledger();
    f.store->push(make_group(3, true));
    CHECK(f.store->ledger().dropped_full == 8);
    CHECK(f.store->sample());
  }
}

TEST_CASE("replay_store: with consume_once single samples are drawn in the order of arrival") {
  FilledStore f(1, "consume_once", 0, "sample");
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
  FilledStore f(1000, "reuse", 64, "sample");
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
  FilledStore f(1'000'000, "reuse", 248, "sample");
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
    FilledStore saved(3, mode, 0, draw), loaded(3, mode, 0, draw);
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
  FilledStore f;
  f.store->applied(0, {});
  CHECK(f.granted() > 0);
  CHECK_THROWS_AS(f.store->save(), InvariantError);
}
