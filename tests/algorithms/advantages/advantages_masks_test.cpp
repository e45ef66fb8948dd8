#include "algorithms/advantages/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "algorithms/common/moments.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/algorithms/advantages/advantage_oracles.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Runs every estimator on this batch; grpo_passk only if no sequence is alone in its group.
template <class F>
void for_each_estimator(const RandomSequences& batch, F f) {
  for (const AdvantageEntry& entry : advantage_table()) {
    bool alone = false;
    for (std::size_t sequence = 0; sequence < batch.groups.size(); ++sequence)
      alone = alone || AdvantageOracle{batch}.alone_with_masked(sequence);
    if (entry.function != nullptr && (entry.name != "grpo_passk" || !alone)) f(entry);
  }
}

}  // namespace

TEST_CASE("advantages: values at masked tokens do not affect results") {
  RandomSequences batch(12, 9, 3, 17);
  for (std::size_t sequence = 0; sequence < 12; ++sequence) batch.groups[sequence] = static_cast<int64_t>(sequence % 3);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    const Estimate want = run_estimator(entry.name, batch.input());
    for (const float x : {kNaN, std::numeric_limits<float>::infinity(), -1e30f}) {
      RandomSequences poisoned = batch;
      poisoned.poison(x);
      const Estimate got = run_estimator(entry.name, poisoned.input());
      INFO(entry.name);
      CHECK(got.advantages == want.advantages);
      CHECK(got.returns == want.returns);
    }
  });
}

TEST_CASE("advantages: a padded batch and the same sequences without padding give equal results") {
  const RandomSequences ragged(9, 8, 3, 23);
  RandomSequences padded = ragged;
  padded.rewards.assign(9 * 8, kNaN);
  padded.values = padded.old_log_probs = padded.sum_pi_squared = padded.weights = padded.rewards;
  padded.mask.assign(9 * 8, 0);
  std::vector<std::size_t> place;
  for (std::size_t sequence = 0; sequence < 9; ++sequence)
    for (int64_t t = 0; t < ragged.offsets[sequence + 1] - ragged.offsets[sequence]; ++t)
      place.push_back(sequence * 8 + static_cast<std::size_t>(t));
  for (std::size_t i = 0; i < place.size(); ++i) {
    padded.rewards[place[i]] = ragged.rewards[i];
    padded.values[place[i]] = ragged.values[i];
    padded.old_log_probs[place[i]] = ragged.old_log_probs[i];
    padded.sum_pi_squared[place[i]] = ragged.sum_pi_squared[i];
    padded.weights[place[i]] = ragged.weights[i];
    padded.mask[place[i]] = ragged.mask[i];
  }
  AdvantageInput in = padded.input();
  in.sequences = TokenSequences(9, 8);
  for_each_estimator(ragged, [&](const AdvantageEntry& entry) {
    INFO(entry.name);
    const Estimate want = run_estimator(entry.name, ragged.input()), got = run_estimator(entry.name, in);
    for (std::size_t i = 0; i < place.size(); ++i)
      REQUIRE(got.advantages[place[i]] == doctest::Approx(want.advantages[i]).epsilon(1e-6));
  });
}

TEST_CASE("advantages: group labels and the order of sequences do not affect results") {
  const RandomSequences batch(12, 5, 3, 31, true);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    RandomSequences renamed = batch;
    for (int64_t& group : renamed.groups) group = 50 - 7 * group;
    INFO(entry.name);
    CHECK(run_estimator(entry.name, renamed.input()).advantages == run_estimator(entry.name, batch.input()).advantages);
  });
}

TEST_CASE("advantages: count_masked_rewards includes rewards at masked tokens") {
  RandomSequences batch(2, 2, 1, 3, true, 0.0);
  batch.rewards = {1, 2, 4, 8};
  batch.mask = {1, 0, 1, 0};
  CHECK(run_estimator("dr_grpo", batch.input()).advantages[0] ==
        doctest::Approx(batch.groups[0] == batch.groups[1] ? -1.5 : 1));
  batch.groups = {0, 0};
  CHECK(run_estimator("dr_grpo", batch.input(), {{"count_masked_rewards", true}}).advantages ==
        std::vector<float>{-4.5, 0, 4.5, 0});
}

TEST_CASE("advantages: a sequence without unmasked tokens is left out of its group, unless its rewards count") {
  RandomSequences batch(4, 2, 1, 3, true, 0.0);
  batch.rewards = {0, 1, 0, 0, 0, 1, 0, 7};
  batch.mask = {1, 1, 1, 1, 1, 1, 0, 0};
  batch.groups = {0, 0, 0, 0};
  RandomSequences without = batch;
  without.offsets.pop_back();
  without.groups.pop_back();
  without.baselines.pop_back();
  for (auto* values :
       {&without.rewards, &without.values, &without.old_log_probs, &without.sum_pi_squared, &without.weights})
    values->resize(6);
  without.mask.resize(6);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    INFO(entry.name);
    std::vector<float> want = run_estimator(entry.name, without.input()).advantages;
    want.resize(8, 0.0f);
    CHECK(run_estimator(entry.name, batch.input()).advantages == want);
  });
  const auto counted = run_estimator("dr_grpo", batch.input(), {{"count_masked_rewards", true}}).advantages;
  CHECK(counted == std::vector<float>{-1.25, -1.25, -2.25, -2.25, -1.25, -1.25, 0, 0});
}

TEST_CASE("advantages: grpo_passk gives 0 to a sequence whose group has no other unmasked one") {
  RandomSequences batch(2, 1, 1, 3, true, 0.0);
  batch.rewards = {5, 9};
  batch.mask = {1, 0};
  batch.groups = {0, 0};
  CHECK(run_estimator("grpo_passk", batch.input()).advantages == std::vector<float>{0, 0});
}

TEST_CASE("advantages: an empty mask array means all tokens") {
  RandomSequences batch(6, 7, 2, 41, true, 0.0);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    AdvantageInput in = batch.input();
    in.mask = {};
    INFO(entry.name);
    CHECK(run_estimator(entry.name, in).advantages == run_estimator(entry.name, batch.input()).advantages);
  });
}

TEST_CASE("advantages: a NaN in an unmasked reward appears in the result") {
  RandomSequences batch(6, 4, 1, 43, true, 0.0);
  batch.rewards[0] = kNaN;
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    const std::vector<float> got = run_estimator(entry.name, batch.input()).advantages;
    INFO(entry.name);
    CHECK(std::any_of(got.begin(), got.end(), [](float x) { return std::isnan(x); }));
  });
}

TEST_CASE("advantages: every entry is complete and its names are unique") {
  std::set<std::string_view> names;
  for (const AdvantageEntry& entry : advantage_table()) {
    CHECK(names.insert(entry.name).second);
    for (const std::string_view alias : entry.aliases) {
      CHECK(names.insert(alias).second);
      CHECK(find_advantage(alias).name == entry.name);
    }
    CHECK(&find_advantage(entry.name) == &entry);
    // The entry's settings for a run are consistent.
    const EstimatorRun& run_estimator = entry.run;
    CHECK_FALSE((run_estimator.sequences && entry.function == nullptr));
    CHECK_FALSE((run_estimator.sequences && !run_estimator.columns));
    CHECK((run_estimator.advantages == ComputedBy::trainer) == run_estimator.columns);
    CHECK_FALSE((run_estimator.advantages == ComputedBy::worker && run_estimator.returns == ComputedBy::trainer));
    if (run_estimator.sequences && (entry.needs & kNeedsPolicy)) CHECK(run_estimator.start);
    for (const Setting& parameter : entry.parameters) {
      CHECK_FALSE(parameter.help.empty());
      CHECK_FALSE(parameter.source.empty());
      ParameterValues values(entry.parameters);
      values.set("test", parameter.key, default_value(parameter));
    }
  }
}

TEST_CASE("advantages: unknown names, unknown parameters and bad values are rejected with a suggestion") {
  CHECK_THROWS_WITH_AS(find_advantage("grop"),
                       doctest::Contains("algorithm.advantage: unknown name \"grop\", did you mean \"grpo\"?"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_advantage("rloo_vectorised"), doctest::Contains("did you mean \"rloo_vectorized\"?"),
                       ConfigError);
  CHECK_THROWS_AS(find_advantage("GRPO"), ConfigError);
  const RandomSequences batch(2, 2, 1, 3, true);
  const auto refuses = [&](std::string_view name, std::string_view key, const ParameterValue& value, const char* part) {
    ParameterValues values(find_advantage(name).parameters);
    CHECK_THROWS_WITH_AS(values.set("advantages", key, value), doctest::Contains(part), ConfigError);
  };
  refuses("gae", "gama", 0.5, "gamma");
  refuses("gae", "gamma", -0.1, "advantages.gamma: -0.1 is out of range, expected a number in [0, 1]");
  refuses("gae", "lam", 1.5, "expected a number in [0, 1]");
  refuses("gae", "gamma", double{kNaN}, "expected a number in [0, 1]");
  refuses("gae", "whiten", 1.0, "expected true or false");
  refuses("gae", "outside", "none", "one of: zero, carry");
  refuses("gpg", "f_norm", 0.0, "above 0");
}

TEST_CASE("advantages: missing inputs and wrong sizes are rejected") {
  const RandomSequences batch(4, 3, 2, 3, true, 0.0);
  const auto without = [&](std::string_view name, auto change) {
    AdvantageInput in = batch.input();
    change(in);
    run_estimator(name, in);
  };
  CHECK_THROWS_WITH_AS(without("grpo", [](auto& in) { in.groups = {}; }), "groups: missing, grpo needs it",
                       ConfigError);
  CHECK_THROWS_WITH_AS(without("gae", [](auto& in) { in.values = {}; }), "values: missing, gae needs it", ConfigError);
  CHECK_THROWS_WITH_AS(without("remax", [](auto& in) { in.baselines = {}; }), "baselines: missing, remax needs it",
                       ConfigError);
  CHECK_THROWS_AS(without("optimal_token_baseline", [](auto& in) { in.sum_pi_squared = {}; }), ConfigError);
  CHECK_THROWS_WITH_AS(without("vtrace", [](auto&) {}), "vtrace: not available as a function of token sequences",
                       ConfigError);
  CHECK_THROWS_AS(without("grpo", [](auto& in) { in.groups = in.groups.first(3); }), InvariantError);
  CHECK_THROWS_AS(without("gae", [](auto& in) { in.values = in.values.first(3); }), InvariantError);
  CHECK_THROWS_AS(without("grpo", [](auto& in) { in.mask = in.mask.first(3); }), InvariantError);
  CHECK_THROWS_AS(without("grpo", [](auto& in) { in.sequences = TokenSequences(5, 3); }), InvariantError);
}
